//! Endpoints of the service `kubernetes`.

use serde_json::{Value, json};

use super::store::{KubeStore, State};

const SLICES: &str = "endpointslices.discovery.k8s.io";

impl KubeStore {
    /// Sets the addresses of the control-plane nodes that have a running API server.
    pub fn set_api_addresses(&self, addresses: &[&str]) {
        let port = json!([{"name": "https", "port": 6443, "protocol": "TCP"}]);
        let ips: Vec<Value> = addresses.iter().map(|address| json!({"ip": address})).collect();
        let subsets = json!([{"addresses": ips, "ports": port}]);
        let ready: Vec<Value> = addresses
            .iter()
            .map(|address| json!({"addresses": [address], "conditions": {"ready": true}}))
            .collect();
        self.with(|state| {
            set(state, "endpoints", &json!({"subsets": subsets}));
            let slice = json!({"addressType": "IPv4", "endpoints": ready, "ports": port});
            set(state, SLICES, &slice);
        });
    }
}

fn set(state: &mut State, id: &str, content: &Value) {
    let labels = json!({"kubernetes.io/service-name": "kubernetes"});
    let metadata = json!({"name": "kubernetes", "namespace": "default", "labels": labels});
    // Creation fails if the object exists, as it does after the first call.
    state.create_inside(id, json!({"metadata": metadata})).ok();
    state.change(id, "default", "kubernetes", |object| {
        for (key, value) in content.as_object().into_iter().flatten() {
            object[key] = value.clone();
        }
    });
}
