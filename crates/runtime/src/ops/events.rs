pub(crate) mod subscribe;
