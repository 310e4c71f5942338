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

// node is who the steps speak to, and what earlier ones left for later ones.
type node struct {
	settings *settings
	client   *client.Client
	// bootID is what was read before the node was last told to restart.
	bootID string
}

// A node that reboots is away for seconds: trying again must not take minutes.
var patience = client.WithGRPCDialOptions(grpc.WithConnectParams(grpc.ConnectParams{
	Backoff: backoff.Config{BaseDelay: 200 * time.Millisecond, Multiplier: 1.3, Jitter: 0.2, MaxDelay: 2 * time.Second},
	// For each try, handshake included.
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

// anyone is for maintenance mode, where nobody has a certificate that means anything.
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
