//! Routing of a path to its endpoint.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::endpoint::{Endpoint, Method, placeholder};
use super::table;
use crate::Release;

/// All endpoints of a release.
#[cfg(test)]
pub(crate) fn endpoints(release: Release) -> &'static [Endpoint] {
    &routes(release).endpoints
}

/// Endpoint of a path, and the values of the placeholders. The path is relative to `/api2/json` and already percent-decoded. As
/// in Proxmox, an encoded `/` separates path segments like a plain `/`.
pub(crate) fn find(
    release: Release,
    method: Method,
    path: &str,
) -> Option<(&'static Endpoint, Vec<(String, String)>)> {
    let routes = routes(release);
    let mut place = &routes.root;
    let mut parameters = Vec::new();
    let mut components = path.split('/').filter(|component| !component.is_empty());
    while let Some(component) = components.next() {
        if let Some((name, next)) = &place.placeholder {
            let mut value = component.to_owned();
            if *name == VOLUME {
                components.by_ref().for_each(|more| value.extend(["/", more]));
            }
            if value.contains(char::is_whitespace) {
                return None;
            }
            parameters.push(((*name).to_owned(), value));
            place = next;
        } else {
            place = place.fixed.get(component)?;
        }
    }
    let index = place.methods.iter().find(|(of, _)| *of == method)?.1;
    Some((&routes.endpoints[index], parameters))
}

/// Placeholder that matches the whole rest of the path, because names of volumes contain slashes.
const VOLUME: &str = "volume";

/// Endpoints of a release and the tree of their paths.
struct Routes {
    endpoints: Vec<Endpoint>,
    root: RouteNode,
}

/// Node of the path tree. It has either a placeholder or fixed children, but not both.
#[derive(Default)]
struct RouteNode {
    fixed: HashMap<&'static str, Self>,
    placeholder: Option<(&'static str, Box<Self>)>,
    methods: Vec<(Method, usize)>,
}

fn routes(release: Release) -> &'static Routes {
    static V8: LazyLock<Routes> = LazyLock::new(|| Routes::new(Release::V8));
    static V9: LazyLock<Routes> = LazyLock::new(|| Routes::new(Release::V9));
    match release {
        Release::V8 => &V8,
        Release::V9 => &V9,
    }
}

impl Routes {
    fn new(release: Release) -> Self {
        let endpoints = table::endpoints(release);
        let mut root = RouteNode::default();
        for (index, endpoint) in endpoints.iter().enumerate() {
            let mut place = &mut root;
            for component in endpoint.path.split('/').filter(|component| !component.is_empty()) {
                place = match placeholder(component) {
                    None => place.fixed.entry(component).or_default(),
                    Some(name) => {
                        let (known, next) =
                            place.placeholder.get_or_insert_with(|| (name, Box::default()));
                        debug_assert_eq!(*known, name, "{} has two names there", endpoint.path);
                        next
                    }
                };
                debug_assert!(place.placeholder.is_none() || place.fixed.is_empty());
            }
            place.methods.push((endpoint.method, index));
        }
        Self { endpoints, root }
    }
}
