package main

import (
	"bytes"
	"encoding/json"
	"fmt"

	yaml "go.yaml.in/yaml/v4"

	"github.com/siderolabs/talos/pkg/machinery/config"
	"github.com/siderolabs/talos/pkg/machinery/config/encoder"
	"github.com/siderolabs/talos/pkg/machinery/config/generate"
	"github.com/siderolabs/talos/pkg/machinery/config/generate/secrets"
	"github.com/siderolabs/talos/pkg/machinery/config/machine"
	"github.com/siderolabs/talos/pkg/machinery/config/types/v1alpha1"
)

// genOptions are the options of Talos's generator; nil and empty mean "not given".
type genOptions struct {
	InstallDisk                    string              `json:"install_disk"`
	InstallImage                   string              `json:"install_image"`
	ExtraKernelArgs                []string            `json:"extra_kernel_args"`
	AdditionalSANs                 []string            `json:"additional_sans"`
	DNSDomain                      *string             `json:"dns_domain"`
	Sysctls                        map[string]string   `json:"sysctls"`
	KubeletExtraMounts             json.RawMessage     `json:"kubelet_extra_mounts"`
	RegistryMirrors                map[string][]string `json:"registry_mirrors"`
	RegistryCACerts                map[string]string   `json:"registry_ca_certs"`
	RegistryInsecure               []string            `json:"registry_insecure"`
	LocalAPIServerPort             int                 `json:"local_api_server_port"`
	CNI                            json.RawMessage     `json:"cni"`
	AllowSchedulingOnControlPlanes bool                `json:"allow_scheduling_on_control_planes"`
	Debug                          bool                `json:"debug"`
	Discovery                      *bool               `json:"discovery"`
	KubePrismPort                  *int                `json:"kube_prism_port"`
	HostDNSForwardKubeDNS          *bool               `json:"host_dns_forward_kube_dns"`
	KubeSpan                       *bool               `json:"kubespan"`
	UserDisks                      json.RawMessage     `json:"user_disks"`
}

// generateConfigs generates configs like `talosctl gen config --with-secrets`, without comments and without a talosconfig.
func generateConfigs(req *request) (any, error) {
	bundle, err := loadSecrets(req.Secrets)
	if err != nil {
		return nil, fmt.Errorf("secrets: %w", err)
	}

	options, err := req.Options.talosOptions()
	if err != nil {
		return nil, err
	}

	options = append(options, generate.WithSecretsBundle(bundle))

	if req.Contract != "" {
		contract, err := config.ParseContractFromVersion(req.Contract)
		if err != nil {
			return nil, err
		}

		options = append(options, generate.WithVersionContract(contract))
	}

	input, err := generate.NewInput(req.ClusterName, req.Endpoint, req.KubernetesVersion, options...)
	if err != nil {
		return nil, err
	}

	result := map[string]string{}

	for _, role := range []machine.Type{machine.TypeControlPlane, machine.TypeWorker} {
		provider, err := input.Config(role)
		if err != nil {
			return nil, err
		}

		if err := req.Options.addKubeletMounts(provider); err != nil {
			return nil, err
		}

		text, err := provider.EncodeBytes(encoder.WithComments(encoder.CommentsDisabled))
		if err != nil {
			return nil, err
		}

		result[role.String()] = string(text)
	}

	return result, nil
}

func (o *genOptions) talosOptions() ([]generate.Option, error) {
	options := []generate.Option{
		generate.WithInstallDisk(o.InstallDisk),
		generate.WithInstallImage(o.InstallImage),
		generate.WithInstallExtraKernelArgs(o.ExtraKernelArgs),
		generate.WithAdditionalSubjectAltNames(o.AdditionalSANs),
		generate.WithLocalAPIServerPort(o.LocalAPIServerPort),
		generate.WithAllowSchedulingOnControlPlanes(o.AllowSchedulingOnControlPlanes),
		generate.WithDebug(o.Debug),
	}

	if o.DNSDomain != nil {
		options = append(options, generate.WithDNSDomain(*o.DNSDomain))
	}

	if len(o.Sysctls) > 0 {
		options = append(options, generate.WithSysctls(o.Sysctls))
	}

	for host, endpoints := range o.RegistryMirrors {
		options = append(options, generate.WithRegistryMirror(host, endpoints...))
	}

	for host, pem := range o.RegistryCACerts {
		options = append(options, generate.WithRegistryCACert(host, pem))
	}

	for _, host := range o.RegistryInsecure {
		options = append(options, generate.WithRegistryInsecureSkipVerify(host))
	}

	if o.Discovery != nil {
		options = append(options, generate.WithClusterDiscovery(*o.Discovery))
	}

	if o.KubePrismPort != nil {
		options = append(options, generate.WithKubePrismPort(*o.KubePrismPort))
	}

	if o.HostDNSForwardKubeDNS != nil {
		options = append(options, generate.WithHostDNSForwardKubeDNSToHost(*o.HostDNSForwardKubeDNS))
	}

	if o.KubeSpan != nil {
		options = append(options, kubeSpanOption(*o.KubeSpan))
	}

	if given(o.CNI) {
		cni := &v1alpha1.CNIConfig{}
		if err := decodeOption("cni", o.CNI, cni); err != nil {
			return nil, err
		}

		options = append(options, generate.WithClusterCNIConfig(cni))
	}

	if given(o.UserDisks) {
		var disks []*v1alpha1.MachineDisk
		if err := decodeOption("user_disks", o.UserDisks, &disks); err != nil {
			return nil, err
		}

		options = append(options, generate.WithUserDisks(disks))
	}

	return options, nil
}

// addKubeletMounts sets kubelet mounts, for which the generator has no option. The provider is not encoded yet, so its
// document can be edited.
func (o *genOptions) addKubeletMounts(provider config.Provider) error {
	if !given(o.KubeletExtraMounts) {
		return nil
	}

	var mounts []v1alpha1.ExtraMount
	if err := decodeOption("kubelet_extra_mounts", o.KubeletExtraMounts, &mounts); err != nil {
		return err
	}

	provider.RawV1Alpha1().MachineConfig.MachineKubelet.KubeletExtraMounts = mounts

	return nil
}

func given(raw json.RawMessage) bool {
	return len(raw) > 0 && !bytes.Equal(raw, []byte("null"))
}

// decodeOption reads a structured option through YAML (JSON is a subset), because Talos's types carry YAML keys only.
func decodeOption(name string, raw json.RawMessage, target any) error {
	decoder := yaml.NewDecoder(bytes.NewReader(raw))
	decoder.KnownFields(true)

	if err := decoder.Decode(target); err != nil {
		return fmt.Errorf("bad request: option %s: %w", name, err)
	}

	return nil
}

// loadSecrets reads a bundle like `talosctl gen config --with-secrets`, without validation.
func loadSecrets(text string) (*secrets.Bundle, error) {
	bundle := &secrets.Bundle{Clock: secrets.NewClock()}

	if err := yaml.NewDecoder(bytes.NewReader([]byte(text))).Decode(&bundle); err != nil {
		return nil, err
	}

	return bundle, nil
}

// checkSecrets loads a bundle and validates it with Talos.
func checkSecrets(req *request) (any, error) {
	bundle, err := loadSecrets(req.Bundle)
	if err != nil {
		return nil, err
	}

	if err := bundle.Validate(); err != nil {
		return nil, err
	}

	return map[string]bool{"ok": true}, nil
}

// newSecrets generates a bundle like `talosctl gen secrets`.
func newSecrets(req *request) (any, error) {
	contract, err := config.ParseContractFromVersion(req.Contract)
	if err != nil {
		return nil, err
	}

	bundle, err := secrets.NewBundle(secrets.NewClock(), contract)
	if err != nil {
		return nil, err
	}

	text, err := yaml.Marshal(bundle)
	if err != nil {
		return nil, err
	}

	return map[string]string{"bundle": string(text)}, nil
}
