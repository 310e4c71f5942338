package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/safe"
	"github.com/cosi-project/runtime/pkg/state"
	"go.yaml.in/yaml/v4"
	"google.golang.org/grpc/codes"

	"github.com/siderolabs/talos/pkg/machinery/client"
	"github.com/siderolabs/talos/pkg/machinery/resources/runtime"
)

// builtin are common resource types, so that a test server need not describe its resources.
var builtin = map[string][2]string{
	"members":       {"cluster", "Members.cluster.talos.dev"},
	"machinestatus": {"runtime", "MachineStatuses.runtime.talos.dev"},
	"services":      {"runtime", "Services.v1alpha1.talos.dev"},
}

// found is a resource in the form of `talosctl get -o yaml`.
type found struct {
	ID      string `json:"id"`
	Version string `json:"version"`
	Phase   string `json:"phase"`
	Spec    any    `json:"spec"`
}

// get reads resources by COSI: TYPE or TYPE/ID. A type that is not built in is looked up on the node, as talosctl does.
func get(ctx context.Context, n *node, argument string) (any, error) {
	kind, id, isOne := strings.Cut(argument, "/")

	at, ok := builtin[strings.ToLower(kind)]
	if !ok {
		namespace := ""

		definition, err := n.client.ResolveResourceKind(ctx, &namespace, kind)
		if err != nil {
			return nil, err
		}

		at = [2]string{namespace, definition.TypedSpec().Type}
	}

	if isOne {
		one, err := n.client.COSI.Get(ctx, resource.NewMetadata(at[0], at[1], id, resource.VersionUndefined),
			state.WithGetUnmarshalOptions(state.WithSkipProtobufUnmarshal()))
		if err != nil {
			return nil, err
		}

		return show(one)
	}

	all, err := n.client.COSI.List(ctx, resource.NewMetadata(at[0], at[1], "", resource.VersionUndefined),
		state.WithListUnmarshalOptions(state.WithSkipProtobufUnmarshal()))
	if err != nil {
		return nil, err
	}

	shown := make([]found, 0, len(all.Items))

	for _, item := range all.Items {
		one, err := show(item)
		if err != nil {
			return shown, err
		}

		shown = append(shown, one)
	}

	return shown, nil
}

func show(r resource.Resource) (found, error) {
	shown := found{ID: r.Metadata().ID(), Version: r.Metadata().Version().String(), Phase: r.Metadata().Phase().String()}

	text, err := yaml.Marshal(r.Spec())
	if err != nil {
		return shown, err
	}

	return shown, yaml.Unmarshal(text, &shown.Spec)
}

// machine reads the status of the machine as its type, not as YAML: the server must have filled both.
func machine(ctx context.Context, n *node, _ string) (any, error) {
	status, err := safe.StateGetByID[*runtime.MachineStatus](ctx, n.client.COSI, runtime.MachineStatusID)
	if err != nil {
		return nil, err
	}

	var unmet []string
	for _, condition := range status.TypedSpec().Status.UnmetConditions {
		unmet = append(unmet, condition.Name+": "+condition.Reason)
	}

	return map[string]any{
		"stage": status.TypedSpec().Stage.String(), "ready": status.TypedSpec().Status.Ready, "unmet": unmet,
	}, nil
}

// waitReady waits until the machine runs, and after a restart until its boot id has changed.
func waitReady(ctx context.Context, n *node, _ string) (any, error) {
	return wait(ctx, func(ctx context.Context) (any, error) {
		bootID, err := readBootID(ctx, n)
		if err != nil {
			return nil, err
		}

		if bootID == n.bootID {
			return nil, fmt.Errorf("the node has not rebooted yet")
		}

		stage, ready, saw, err := stageOf(ctx, n)
		if err == nil && (stage != "running" || !ready) {
			err = fmt.Errorf("the machine is %s, ready: %t", stage, ready)
		}

		return saw, err
	})
}

// waitMaintenance waits until the node is in maintenance mode.
func waitMaintenance(ctx context.Context, n *node, _ string) (any, error) {
	anonymous := *n.settings
	anonymous.insecure = true

	c, err := connect(&anonymous)
	if err != nil {
		return nil, err
	}

	defer c.Close() //nolint:errcheck

	stranger := &node{settings: &anonymous, client: c}

	return wait(ctx, func(ctx context.Context) (any, error) {
		stage, _, saw, err := stageOf(ctx, stranger)
		if err == nil && stage != "maintenance" {
			err = fmt.Errorf("the machine is %s", stage)
		}

		return saw, err
	})
}

// stageOf reads the stage of the machine, and whether it is ready.
func stageOf(ctx context.Context, n *node) (stage string, ready bool, saw any, err error) {
	if saw, err = get(ctx, n, "machinestatus/machine"); err != nil {
		return "", false, nil, err
	}

	spec, _ := saw.(found).Spec.(map[string]any) //nolint:forcetypeassert
	status, _ := spec["status"].(map[string]any)
	stage, _ = spec["stage"].(string)
	ready, _ = status["ready"].(bool)

	return stage, ready, saw, nil
}

// wait polls until the condition holds; at the timeout it reports the last reason.
func wait(ctx context.Context, look func(context.Context) (any, error)) (any, error) {
	for {
		one, cancel := context.WithTimeout(ctx, 10*time.Second)
		saw, err := look(one)

		cancel()

		if err == nil || client.StatusCode(err) == codes.PermissionDenied {
			return saw, err
		}

		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return saw, err
		}
	}
}

func readBootID(ctx context.Context, n *node) (string, error) {
	reader, err := n.client.Read(ctx, "/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", err
	}

	defer reader.Close() //nolint:errcheck

	text, err := io.ReadAll(reader)
	if err != nil {
		return "", err
	}

	if len(text) == 0 {
		return "", fmt.Errorf("the boot id is empty")
	}

	return strings.TrimSpace(string(text)), nil
}
