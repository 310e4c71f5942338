//go:build machinery_v1_12

package main

import (
	"github.com/siderolabs/talos/pkg/machinery/config/generate"
	"github.com/siderolabs/talos/pkg/machinery/config/machine"
	"github.com/siderolabs/talos/pkg/machinery/config/types/v1alpha1"
)

// kubeSpanOption enables KubeSpan. Up to 1.12 it is a network option, which exists only for "on".
func kubeSpanOption(enabled bool) generate.Option {
	return generate.WithNetworkOptions(func(_ machine.Type, network *v1alpha1.NetworkConfig) error {
		network.NetworkKubeSpan = &v1alpha1.NetworkKubeSpan{KubeSpanEnabled: &enabled}

		return nil
	})
}
