package main

import (
	"fmt"

	"github.com/siderolabs/talos/pkg/machinery/config"
	"github.com/siderolabs/talos/pkg/machinery/config/configloader"
	"github.com/siderolabs/talos/pkg/machinery/config/configpatcher"
	"github.com/siderolabs/talos/pkg/machinery/config/container"
	"github.com/siderolabs/talos/pkg/machinery/config/encoder"
	"github.com/siderolabs/talos/pkg/machinery/config/validation"
)

type output struct {
	Output string `json:"output"`
}

// patchConfig applies patches like `talosctl machineconfig patch`, and returns the canonical form of the result, because a
// JSON patch alone would leave a text with sorted keys that was never decoded. Patches are texts here, never file names.
func patchConfig(req *request) (any, error) {
	patches := make([]configpatcher.Patch, 0, len(req.Patches))

	for _, text := range req.Patches {
		patch, err := configpatcher.LoadPatch([]byte(text))
		if err != nil {
			return nil, err
		}

		patches = append(patches, patch)
	}

	patched, err := configpatcher.Apply(configpatcher.WithBytes([]byte(req.Config)), patches)
	if err != nil {
		return nil, err
	}

	provider, err := patched.Config()
	if err != nil {
		return nil, err
	}

	return canonical(provider)
}

// encodeConfig returns the canonical form of a config.
func encodeConfig(req *request) (any, error) {
	provider, err := configloader.NewFromBytes([]byte(req.Config))
	if err != nil {
		return nil, err
	}

	return canonical(provider)
}

// canonical encodes without comments. The provider of the loader returns the bytes that it read instead of encoding; a new
// container of the same documents encodes them. (A clone would too, but cloning crashes on dates in free-form values,
// which encoding does not.)
func canonical(provider config.Provider) (any, error) {
	documents, err := container.New(provider.Documents()...)
	if err != nil {
		return nil, err
	}

	text, err := documents.EncodeBytes(encoder.WithComments(encoder.CommentsDisabled))
	if err != nil {
		return nil, err
	}

	return output{string(text)}, nil
}

type verdict struct {
	Valid bool `json:"valid"`
	// Stage is the last stage reached: "decode" (the text is not a config) or "validate".
	Stage    string   `json:"stage"`
	Warnings []string `json:"warnings"`
	Error    string   `json:"error"`
}

// validateConfig validates a config like `talosctl validate`.
func validateConfig(req *request) (verdict, error) {
	mode, err := parseMode(req.Mode)
	if err != nil {
		return verdict{}, err
	}

	provider, err := configloader.NewFromBytes([]byte(req.Config))
	if err != nil {
		return verdict{Stage: "decode", Error: err.Error()}, nil
	}

	options := []validation.Option{validation.WithLocal()}
	if req.Strict {
		options = append(options, validation.WithStrict())
	}

	result := verdict{Stage: "validate"}

	result.Warnings, err = provider.Validate(mode, options...)
	if err != nil {
		result.Error = err.Error()
	}

	result.Valid = err == nil

	return result, nil
}

// mode is the platform of a config, with the two properties that the validator reads.
type mode struct {
	name            string
	requiresInstall bool
	inContainer     bool
}

func (m mode) String() string        { return m.name }
func (m mode) RequiresInstall() bool { return m.requiresInstall }
func (m mode) InContainer() bool     { return m.inContainer }

func parseMode(name string) (mode, error) {
	switch name {
	case "metal":
		return mode{name: name, requiresInstall: true}, nil
	case "cloud":
		return mode{name: name}, nil
	case "container":
		return mode{name: name, inContainer: true}, nil
	default:
		return mode{}, fmt.Errorf("bad request: unknown mode %q", name)
	}
}
