package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"go.yaml.in/yaml/v4"

	machineapi "github.com/siderolabs/talos/pkg/machinery/api/machine"
	"github.com/siderolabs/talos/pkg/machinery/client"
)

// kubeconfig writes the kubeconfig to a file instead of printing it, because it contains a key.
func kubeconfig(ctx context.Context, n *node, _ string) (any, error) {
	text, err := n.client.Kubeconfig(ctx)
	if err != nil {
		return nil, err
	}

	var config struct {
		Clusters []struct {
			Name    string
			Cluster struct{ Server string }
		}
		Users []struct{ Name string }
	}

	if err := yaml.Unmarshal(text, &config); err != nil {
		return nil, err
	}

	if len(config.Clusters) != 1 || len(config.Users) != 1 {
		return nil, fmt.Errorf("%d clusters and %d users", len(config.Clusters), len(config.Users))
	}

	saw := map[string]any{
		"cluster": config.Clusters[0].Name, "server": config.Clusters[0].Cluster.Server, "user": config.Users[0].Name,
	}

	return saw, keep(n, "kubeconfig", text)
}

// events reads the past events of the node and those of the next second (or, as events=DURATION, of that time).
func events(ctx context.Context, n *node, argument string) (any, error) {
	during := time.Second

	if argument != "" {
		var err error
		if during, err = time.ParseDuration(argument); err != nil {
			return nil, err
		}
	}

	ctx, cancel := context.WithTimeout(ctx, during)
	defer cancel()

	type event struct {
		ID    string `json:"id"`
		Actor string `json:"actor"`
		Type  string `json:"type"`
		Text  string `json:"text"`
	}

	saw := []event{}
	err := n.client.EventsWatch(ctx, func(ch <-chan client.Event) {
		for one := range ch {
			saw = append(saw, event{ID: one.ID, Actor: one.ActorID, Type: one.TypeURL, Text: fmt.Sprint(one.Payload)})
		}
	}, client.WithTailEvents(-1))

	return saw, err
}

func members(ctx context.Context, n *node, _ string) (any, error) {
	answer, err := n.client.EtcdMemberList(ctx, &machineapi.EtcdMemberListRequest{QueryLocal: true})
	if err != nil {
		return nil, err
	}

	saw := map[string]any{}

	for _, message := range answer.GetMessages() {
		for _, member := range message.GetMembers() {
			saw[member.GetHostname()] = map[string]any{
				"id": fmt.Sprintf("%x", member.GetId()), "learner": member.GetIsLearner(), "peers": member.GetPeerUrls(),
			}
		}
	}

	return saw, nil
}

// snapshot reads an etcd snapshot, which must be a database of whole pages followed by its checksum.
func snapshot(ctx context.Context, n *node, _ string) (any, error) {
	reader, err := n.client.EtcdSnapshot(ctx, &machineapi.EtcdSnapshotRequest{})
	if err != nil {
		return nil, err
	}

	defer reader.Close() //nolint:errcheck

	data, err := io.ReadAll(reader)
	if err != nil {
		return nil, err
	}

	saw := map[string]any{"bytes": len(data)}

	if len(data)%512 != sha256.Size {
		return saw, errors.New("the snapshot is not whole")
	}

	database, sum := data[:len(data)-sha256.Size], data[len(data)-sha256.Size:]
	if found := sha256.Sum256(database); !bytes.Equal(found[:], sum) {
		return saw, errors.New("the checksum of the snapshot does not match")
	}

	return saw, keep(n, "etcd.snapshot", data)
}

func keep(n *node, name string, data []byte) error {
	if n.settings.outDir == "" {
		return nil
	}

	return os.WriteFile(filepath.Join(n.settings.outDir, name), data, 0o600)
}
