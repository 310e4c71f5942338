package main

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/siderolabs/talos/pkg/machinery/client"
	clientconfig "github.com/siderolabs/talos/pkg/machinery/client/config"
)

// node is the node that the steps call, with state that earlier steps leave for later ones.
type node struct {
	settings *settings
	client   *client.Client
	// bootID is the boot id before the last restart.
	bootID string
}

// A node that reboots is unreachable for seconds, so the backoff must stay short.
var patience = client.WithGRPCDialOptions(grpc.WithConnectParams(grpc.ConnectParams{
	Backoff: backoff.Config{BaseDelay: 200 * time.Millisecond, Multiplier: 1.3, Jitter: 0.2, MaxDelay: 2 * time.Second},
	// Timeout of each attempt, including the handshake.
	MinConnectTimeout: 10 * time.Second,
}))

func connect(s *settings) (*client.Client, error) {
	if s.insecure {
		return client.New(context.Background(), patience, client.WithEndpoints(s.address), client.WithTLSConfig(anyone(s.fingerprint)))
	}

	config, err := clientconfig.Open(s.talosconfig)
	if err != nil {
		return nil, err
	}

	options := []client.OptionFunc{patience, client.WithEndpoints(s.address), client.WithConfig(config)}
	if s.context != "" {
		options = append(options, client.WithContextName(s.context))
	}

	return client.New(context.Background(), options...)
}

// anyone accepts any certificate, for maintenance mode, where the node has no trusted one.
func anyone(fingerprint string) *tls.Config {
	return &tls.Config{
		InsecureSkipVerify: true, //nolint:gosec
		VerifyConnection: func(state tls.ConnectionState) error {
			if fingerprint == "" {
				return nil
			}

			sum := sha256.Sum256(state.PeerCertificates[0].RawSubjectPublicKeyInfo)
			if base64.StdEncoding.EncodeToString(sum[:]) != fingerprint {
				return errors.New("the node has another fingerprint")
			}

			return nil
		},
	}
}
