package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	clusterapi "github.com/siderolabs/talos/pkg/machinery/api/cluster"
	machineapi "github.com/siderolabs/talos/pkg/machinery/api/machine"
)

// step makes one call and returns its result, also when it fails.
type step func(ctx context.Context, n *node, argument string) (any, error)

// known is filled at the start, because steps may refer to each other.
var known map[string]step

func init() {
	known = map[string]step{
		"version":           version,
		"services":          services,
		"disks":             disks,
		"get":               get,
		"machine":           machine,
		"apply":             apply,
		"bootstrap":         bootstrap,
		"wait-ready":        waitReady,
		"wait-maintenance":  waitMaintenance,
		"health":            health,
		"kubeconfig":        kubeconfig,
		"events":            events,
		"members":           members,
		"snapshot":          snapshot,
		"reboot":            reboot,
		"upgrade":           upgrade,
		"upgrade-lifecycle": upgradeLifecycle,
		"reset":             reset,
		"sleep":             sleep,
		"until":             until,
	}
}

func version(ctx context.Context, n *node, _ string) (any, error) {
	answer, err := n.client.Version(ctx)
	if err != nil {
		return nil, err
	}

	if len(answer.GetMessages()) != 1 {
		return nil, fmt.Errorf("%d messages", len(answer.GetMessages()))
	}

	message := answer.GetMessages()[0]

	return map[string]any{
		"tag":      message.GetVersion().GetTag(),
		"arch":     message.GetVersion().GetArch(),
		"platform": message.GetPlatform().GetName(),
	}, nil
}

func services(ctx context.Context, n *node, _ string) (any, error) {
	answer, err := n.client.ServiceList(ctx)
	if err != nil {
		return nil, err
	}

	saw := map[string]string{}

	for _, message := range answer.GetMessages() {
		for _, service := range message.GetServices() {
			health := "unhealthy"

			switch {
			case service.GetHealth().GetUnknown():
				health = "unknown"
			case service.GetHealth().GetHealthy():
				health = "healthy"
			}

			saw[service.GetId()] = service.GetState() + " " + health
		}
	}

	return saw, nil
}

func disks(ctx context.Context, n *node, _ string) (any, error) {
	answer, err := n.client.Disks(ctx)
	if err != nil {
		return nil, err
	}

	saw := map[string]uint64{}

	for _, message := range answer.GetMessages() {
		for _, disk := range message.GetDisks() {
			saw[disk.GetDeviceName()] = disk.GetSize()
		}
	}

	return saw, nil
}

func apply(ctx context.Context, n *node, _ string) (any, error) {
	config, err := os.ReadFile(n.settings.config)
	if err != nil {
		return nil, err
	}

	name := strings.ToUpper(strings.ReplaceAll(n.settings.mode, "-", "_"))

	mode, ok := machineapi.ApplyConfigurationRequest_Mode_value[name]
	if !ok {
		return nil, fmt.Errorf("there is no mode %q", n.settings.mode)
	}

	answer, err := n.client.ApplyConfiguration(ctx, &machineapi.ApplyConfigurationRequest{
		Data:           config,
		Mode:           machineapi.ApplyConfigurationRequest_Mode(mode),
		DryRun:         n.settings.dryRun,
		TryModeTimeout: durationpb.New(time.Minute),
	})
	if err != nil {
		return nil, err
	}

	// The details may contain the config with its keys, so only their length is printed.
	var (
		warnings []string
		modes    []string
		details  int
	)

	for _, message := range answer.GetMessages() {
		warnings = append(warnings, message.GetWarnings()...)
		modes = append(modes, message.GetMode().String())
		details += len(message.GetModeDetails())
	}

	return map[string]any{"modes": modes, "warnings": warnings, "details_bytes": details}, nil
}

func bootstrap(ctx context.Context, n *node, _ string) (any, error) {
	return nil, n.client.Bootstrap(ctx, &machineapi.BootstrapRequest{})
}

// health calls the health check of the node; the client-side checks of talosctl are not part of the published module.
func health(ctx context.Context, n *node, _ string) (any, error) {
	stream, err := n.client.ClusterHealthCheck(ctx, n.settings.timeout, &clusterapi.ClusterInfo{
		ControlPlaneNodes: n.settings.planes,
		WorkerNodes:       n.settings.workers,
	})
	if err != nil {
		return nil, err
	}

	var said []string

	for {
		progress, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return said, nil
		}

		if err != nil {
			return said, err
		}

		if failure := progress.GetMetadata().GetError(); failure != "" {
			return said, errors.New(failure)
		}

		said = append(said, progress.GetMessage())
	}
}

// until repeats another step until it succeeds, because a node reports that it is not ready in many ways.
func until(ctx context.Context, n *node, argument string) (any, error) {
	name, argument, _ := strings.Cut(argument, "=")
	if known[name] == nil {
		return nil, fmt.Errorf("there is no step %q", name)
	}

	return wait(ctx, func(ctx context.Context) (any, error) { return known[name](ctx, n, argument) })
}

func sleep(ctx context.Context, _ *node, argument string) (any, error) {
	pause, err := time.ParseDuration(argument)
	if err != nil {
		return nil, err
	}

	select {
	case <-time.After(pause):
		return nil, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
