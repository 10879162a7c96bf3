//! `runtime.grants`

use trl_protocol::grant::Grants;

use crate::runtime::Inner;

pub(crate) fn perform(runtime: &Inner) -> Grants {
    Grants { grants: runtime.grants.rows(|id| runtime.registry.is_present(id)) }
}
