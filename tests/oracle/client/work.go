package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/siderolabs/talos/pkg/machinery/api/common"
	machineapi "github.com/siderolabs/talos/pkg/machinery/api/machine"
)

// systemImages is the containerd namespace of installer images.
var systemImages = &common.ContainerdInstance{
	Driver:    common.ContainerDriver_CONTAINERD,
	Namespace: common.ContainerdNamespace_NS_SYSTEM,
}

// remember reads the boot id before a node restarts. Without that file, boots cannot be distinguished.
func remember(ctx context.Context, n *node) error {
	bootID, err := readBootID(ctx, n)
	n.bootID = bootID

	return err
}

func reboot(ctx context.Context, n *node, _ string) (any, error) {
	if err := remember(ctx, n); err != nil {
		return nil, err
	}

	answer, err := n.client.RebootWithResponse(ctx)
	if err != nil {
		return nil, err
	}

	return actors(answer.GetMessages())
}

// upgrade makes the upgrade call of Talos up to 1.12, which later versions still support.
func upgrade(ctx context.Context, n *node, _ string) (any, error) {
	if err := remember(ctx, n); err != nil {
		return nil, err
	}

	//nolint:staticcheck
	answer, err := n.client.Upgrade(ctx, n.settings.image, false, false)
	if err != nil {
		return nil, err
	}

	return actors(answer.GetMessages())
}

// upgradeLifecycle pulls and installs an image, and then reboots, which the new services leave to the caller.
func upgradeLifecycle(ctx context.Context, n *node, _ string) (any, error) {
	name, err := pull(ctx, n)
	if err != nil {
		return nil, err
	}

	stream, err := n.client.LifecycleClient.Upgrade(ctx, &machineapi.LifecycleServiceUpgradeRequest{
		Containerd: systemImages,
		Source:     &machineapi.InstallArtifactsSource{ImageName: name},
	})
	if err != nil {
		return nil, err
	}

	var said []string

	for {
		answer, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return said, errors.New("the installer did not say how it ended")
		}

		if err != nil {
			return said, err
		}

		switch progress := answer.GetProgress().GetResponse().(type) {
		case *machineapi.LifecycleServiceInstallProgress_Message:
			said = append(said, progress.Message)
		case *machineapi.LifecycleServiceInstallProgress_ExitCode:
			if progress.ExitCode != 0 {
				return said, fmt.Errorf("the installer ended with %d", progress.ExitCode)
			}

			begun, err := reboot(ctx, n, "")

			return map[string]any{"image": name, "said": said, "reboot": begun}, err
		}
	}
}

func pull(ctx context.Context, n *node) (string, error) {
	stream, err := n.client.ImageClient.Pull(ctx, &machineapi.ImageServicePullRequest{
		Containerd: systemImages,
		ImageRef:   n.settings.image,
	})
	if err != nil {
		return "", err
	}

	name := ""

	for {
		answer, err := stream.Recv()
		if errors.Is(err, io.EOF) && name != "" {
			return name, nil
		}

		if err != nil {
			return "", fmt.Errorf("pull: %w", err)
		}

		if found := answer.GetName(); found != "" {
			name = found
		}
	}
}

// reset wipes the named partitions, or everything, and reboots.
func reset(ctx context.Context, n *node, _ string) (any, error) {
	if err := remember(ctx, n); err != nil {
		return nil, err
	}

	request := &machineapi.ResetRequest{Graceful: n.settings.graceful, Reboot: true}

	for _, label := range n.settings.labels {
		request.SystemPartitionsToWipe = append(request.SystemPartitionsToWipe, &machineapi.ResetPartitionSpec{Label: label, Wipe: true})
	}

	answer, err := n.client.ResetGenericWithResponse(ctx, request)
	if err != nil {
		return nil, err
	}

	return actors(answer.GetMessages())
}

// actors returns the actor ids of a started operation; there must be one, or it could not be followed.
func actors[M interface{ GetActorId() string }](messages []M) (any, error) {
	if len(messages) != 1 || messages[0].GetActorId() == "" {
		return nil, fmt.Errorf("%d messages, and no actor id", len(messages))
	}

	return map[string]any{"actor_id": messages[0].GetActorId()}, nil
}
