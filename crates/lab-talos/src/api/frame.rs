//! gRPC message framing, for calls that are forwarded without decoding their messages.

use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::HeaderMap;
use hyper::body::{Body as HttpBody, Frame};
use prost::encoding::{WireType, encode_key, encode_varint};
use talmox_talos_api::server::Status;
use tokio::sync::mpsc;
use tonic::body::Body;
use tonic::codegen::Bytes;

/// Length of the prefix of a gRPC message: a flag byte and the message length.
const PREFIX_LENGTH: usize = 5;

/// Next frame of a body.
pub(super) async fn next(body: &mut Body) -> Option<Result<Frame<Bytes>, Status>> {
    std::future::poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await
}

/// All bytes of a body.
pub(super) async fn collect(mut body: Body) -> Result<Bytes, Status> {
    let mut all = vec![];
    while let Some(frame) = next(&mut body).await {
        if let Ok(data) = frame?.into_data() {
            all.extend_from_slice(&data);
        }
    }
    Ok(all.into())
}

/// Removes the first complete message from the received bytes.
pub(super) fn take_message(arrived: &mut Vec<u8>) -> Option<Vec<u8>> {
    let length: [u8; 4] = arrived.get(1..PREFIX_LENGTH)?.try_into().ok()?;
    let end = PREFIX_LENGTH + usize::try_from(u32::from_be_bytes(length)).ok()?;
    if arrived.len() < end {
        return None;
    }
    let message = arrived[PREFIX_LENGTH..end].to_vec();
    arrived.drain(..end);
    Some(message)
}

pub(super) fn put_message(message: &[u8]) -> Bytes {
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    let mut framed = vec![0];
    framed.extend(length.to_be_bytes());
    framed.extend(message);
    framed.into()
}

/// Encoded field 1 of a message, with this content.
pub(super) fn first_field(content: &[u8]) -> Vec<u8> {
    let mut field = vec![];
    encode_key(1, WireType::LengthDelimited, &mut field);
    encode_varint(content.len() as u64, &mut field);
    field.extend(content);
    field
}

/// Contents of all fields with number 1 of a message. In an answer, these fields contain the replies.
pub(super) fn first_fields(mut message: &[u8]) -> Vec<Vec<u8>> {
    let mut found = vec![];
    while let Some((key, length, rest)) = header(message) {
        if rest.len() < length {
            break;
        }
        if key == (1 << 3 | 2) {
            found.push(rest[..length].to_vec());
        }
        message = &rest[length..];
    }
    found
}

/// Key and length of a length-delimited field. All fields of answers have this type.
fn header(mut bytes: &[u8]) -> Option<(u64, usize, &[u8])> {
    let key = prost::encoding::decode_varint(&mut bytes).ok()?;
    let length = prost::encoding::decode_varint(&mut bytes).ok()?;
    Some((key, usize::try_from(length).ok()?, bytes))
}

/// Body with these bytes.
pub(super) fn full(bytes: Bytes) -> Body {
    let (sender, receiver) = mpsc::channel(1);
    // Sending cannot fail, because the channel has room for one message.
    drop(sender.try_send(bytes));
    Body::new(ChannelBody { receiver, has_trailers: false })
}

/// Body whose messages arrive one by one. After the last message, the body ends with status OK.
pub(super) fn stream(receiver: mpsc::Receiver<Bytes>) -> Body {
    Body::new(ChannelBody { receiver, has_trailers: true })
}

struct ChannelBody {
    receiver: mpsc::Receiver<Bytes>,
    has_trailers: bool,
}

impl HttpBody for ChannelBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        self.receiver.poll_recv(context).map(|piece| match piece {
            Some(bytes) => Some(Ok(Frame::data(bytes))),
            None if self.has_trailers => {
                self.has_trailers = false;
                let mut trailers = HeaderMap::new();
                trailers.insert(Status::GRPC_STATUS, hyper::header::HeaderValue::from_static("0"));
                Some(Ok(Frame::trailers(trailers)))
            }
            None => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_reassembled_from_pieces() {
        let whole = put_message(b"abc");
        let mut arrived = whole[..6].to_vec();
        assert_eq!(take_message(&mut arrived), None);
        arrived.extend(&whole[6..]);
        arrived.extend(put_message(b""));
        assert_eq!(take_message(&mut arrived).as_deref(), Some(&b"abc"[..]));
        assert_eq!(take_message(&mut arrived).as_deref(), Some(&b""[..]));
        assert_eq!(take_message(&mut arrived), None);
    }

    #[test]
    fn replies_are_extracted_from_answers() {
        let answer = [first_field(b"one"), first_field(b""), first_field(b"three")].concat();
        assert_eq!(first_fields(&answer), [b"one".to_vec(), vec![], b"three".to_vec()]);
        assert!(first_fields(b"\x0a\x09short").is_empty());
    }
}
