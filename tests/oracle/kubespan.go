//go:build !machinery_v1_12

package main

import "github.com/siderolabs/talos/pkg/machinery/config/generate"

// kubeSpanOption enables KubeSpan. Since 1.13 the generator has an option that sets the document or the old field by contract.
func kubeSpanOption(enabled bool) generate.Option {
	return generate.WithKubeSpanEnabled(enabled)
}
