//! Effect of a change, as the text of a plan names it.

use crate::plan::change::{Change, Class};
use crate::plan::field_value::FieldValue;

/// Effect of a change on its object. A VM that is started or shut down, and a state that a run waits for, have the class
/// [`Class::Live`], but the text must not say that a shutdown takes effect while the node runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    Start,
    Shutdown,
    /// The run waits for a state, and changes no setting.
    Wait,
    Of(Class),
}

impl Effect {
    pub(super) fn of(change: &Change) -> Self {
        if change.is_awaited_state() {
            return Self::Wait;
        }
        let text = |value: &Option<FieldValue>| -> Option<String> {
            value.as_ref().and_then(FieldValue::as_text).map(str::to_owned)
        };
        let status = change.fields.iter().find(|field| field.path == "status");
        let Some(status) = status.filter(|_| change.class == Class::Live) else {
            return Self::Of(change.class);
        };
        match (text(&status.old).as_deref(), text(&status.new).as_deref()) {
            (Some("stopped"), Some("running")) => Self::Start,
            (_, Some("stopped")) => Self::Shutdown,
            _ => Self::Of(change.class),
        }
    }

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Shutdown => "shutdown",
            Self::Wait => "wait",
            Self::Of(class) => class.as_str(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::change::{FieldChange, Object};

    #[test]
    fn a_shutdown_a_start_and_a_wait_are_not_live() {
        let of = |path: &str, old: &str, new: &str| {
            let fields = vec![FieldChange::new(path, Some(old.to_owned()), Some(new.to_owned()))];
            let object = Object::Vm("wk-1".to_owned());
            Effect::of(&Change::planned(object, Class::Live, fields)).as_str()
        };
        assert_eq!(of("status", "running", "stopped"), "shutdown");
        assert_eq!(of("status", "stopped", "running"), "start");
        assert_eq!(of("status", "does not answer", "running"), "live");
        assert_eq!(of("tags", "running", "stopped"), "live");
        assert_eq!(of("health", "wk-1 is not ready", "healthy"), "wait");
    }
}
