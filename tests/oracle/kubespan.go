//go:build !machinery_v1_12

package main

import "github.com/siderolabs/talos/pkg/machinery/config/generate"

// kubeSpanOption: from 1.13 KubeSpan is a generator option, which picks the document or the old field by contract.
func kubeSpanOption(enabled bool) generate.Option {
	return generate.WithKubeSpanEnabled(enabled)
}
