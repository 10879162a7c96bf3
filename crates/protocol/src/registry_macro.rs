//! The macro that turns the registry's rows into types; the rows are in `registry.rs`.
//!
//! Of each row it makes a marker type that implements [`Method`](crate::Method), a variant of the
//! request enum and one of the reply enum. Requests of mail are an enum of their own inside.
//!
//! A method that nobody handles does not compile, because handlers match without a catch-all:
//!
//! ```compile_fail,E0004
//! # trl_protocol::registry! {
//! #     pub mod methods;
//! #     pub enum Request => Reply {
//! #         /// Answered below.
//! #         SystemPing = "system.ping", trl_protocol::system::NoParams => trl_protocol::system::Pong, trl_protocol::method::READS;
//! #         /// Answered by nobody.
//! #         SystemStats = "system.stats", trl_protocol::system::NoParams => trl_protocol::system::Stats, trl_protocol::method::READS;
//! #     }
//! #     Mail(pub enum MailRequest => MailReply) {
//! #         /// Answered below.
//! #         AgentList = "agent.list", trl_protocol::system::NoParams => trl_protocol::agent::AgentList, trl_protocol::method::READS;
//! #     }
//! # }
//! fn dispatch(request: Request) -> &'static str {
//!     match request {
//!         Request::SystemPing(_) => "pong",
//!         Request::Mail(MailRequest::AgentList(_)) => "agents",
//!     }
//! }
//! # fn main() {}
//! ```
//!
//! With a handler for each, the same compiles:
//!
//! ```
//! # trl_protocol::registry! {
//! #     pub mod methods;
//! #     pub enum Request => Reply {
//! #         /// Answered below.
//! #         SystemPing = "system.ping", trl_protocol::system::NoParams => trl_protocol::system::Pong, trl_protocol::method::READS;
//! #         /// Answered below.
//! #         SystemStats = "system.stats", trl_protocol::system::NoParams => trl_protocol::system::Stats, trl_protocol::method::READS;
//! #     }
//! #     Mail(pub enum MailRequest => MailReply) {
//! #         /// Answered below.
//! #         AgentList = "agent.list", trl_protocol::system::NoParams => trl_protocol::agent::AgentList, trl_protocol::method::READS;
//! #     }
//! # }
//! fn dispatch(request: Request) -> &'static str {
//!     match request {
//!         Request::SystemPing(_) => "pong",
//!         Request::SystemStats(_) => "stats",
//!         Request::Mail(MailRequest::AgentList(_)) => "agents",
//!     }
//! }
//! # fn main() {
//! #     let request = Request::parse("system.stats", serde_json::json!({})).unwrap();
//! #     assert_eq!((request.info().name, dispatch(request)), ("system.stats", "stats"));
//! # }
//! ```

/// A row: documentation, name of the type, name on the wire, params and reply, rules; and
/// where the params can lower the scope that a call needs to `read`, how.
#[doc(hidden)]
#[macro_export]
macro_rules! registry {
    (
        pub mod $methods:ident;
        pub enum $request:ident => $reply:ident { $(
            $(#[doc = $doc:literal])+
            $variant:ident = $name:literal, $params:ty => $answer:ty, $rules:expr $(, read if $reads:expr)?;
        )* }
        Mail(pub enum $mail_request:ident => $mail_reply:ident) { $(
            $(#[doc = $mail_doc:literal])+
            $mail_variant:ident = $mail_name:literal, $mail_params:ty => $mail_answer:ty, $mail_rules:expr;
        )* }
    ) => {
        /// A request, read and typed.
        #[expect(clippy::large_enum_variant, reason = "a request is moved a few times and lives for one call")]
        #[derive(Debug, Clone, PartialEq)]
        pub enum $request {
            $($variant($params),)*
            /// About agents, contacts and mail.
            Mail($mail_request),
        }

        /// A request about agents, contacts and mail.
        #[derive(Debug, Clone, PartialEq)]
        pub enum $mail_request { $($mail_variant($mail_params),)* }

        /// What a request is answered with: the `data` object of a response.
        #[derive(Debug, Clone, PartialEq, serde::Serialize)]
        #[serde(untagged)]
        pub enum $reply {
            $($variant(Box<$answer>),)*
            Mail($mail_reply),
        }

        /// What requests about agents, contacts and mail are answered with.
        #[derive(Debug, Clone, PartialEq, serde::Serialize)]
        #[serde(untagged)]
        pub enum $mail_reply { $($mail_variant(Box<$mail_answer>),)* }

        /// Every method, in the order of the registry.
        pub static METHODS: &[&$crate::method::MethodInfo] = &[
            $(<$methods::$variant as $crate::method::Method>::INFO,)*
            $(<$methods::$mail_variant as $crate::method::Method>::INFO,)*
        ];

        impl $request {
            pub fn parse(method: &str, params: serde_json::Value) -> Result<$request, $crate::Fault> {
                match method {
                    $($name => $crate::request::read::<$params>(method, params).map($request::$variant),)*
                    $($mail_name => $crate::request::read::<$mail_params>(method, params)
                        .map(|params| $request::Mail($mail_request::$mail_variant(params))),)*
                    unknown => Err($crate::request::unknown_method(unknown, METHODS)),
                }
            }

            /// Its row in the registry.
            pub fn info(&self) -> &'static $crate::method::MethodInfo {
                match self {
                    $($request::$variant(_) => <$methods::$variant as $crate::method::Method>::INFO,)*
                    $request::Mail(request) => request.info(),
                }
            }

            /// What a token must allow for this very request.
            pub fn scope(&self) -> $crate::method::Scope {
                match self {
                    $($($request::$variant(params) if $crate::request::holds(params, $reads) => $crate::method::Scope::Read,)?)*
                    other => other.info().rules.scope,
                }
            }
        }

        impl $mail_request {
            /// Its row in the registry.
            pub fn info(&self) -> &'static $crate::method::MethodInfo {
                match self {
                    $($mail_request::$mail_variant(_) => <$methods::$mail_variant as $crate::method::Method>::INFO,)*
                }
            }
        }

        /// One type per method; each implements [`Method`](trait@$crate::method::Method).
        pub mod $methods {
            #[allow(unused_imports, reason = "rows name their types as the registry's file does")]
            use super::*;

            $(
                $(#[doc = $doc])+
                #[derive(Debug, Clone, Copy)]
                pub struct $variant;

                impl $crate::method::Method for $variant {
                    type Params = $params;
                    type Reply = $answer;
                    type Request = super::$request;
                    type AnyReply = super::$reply;

                    const INFO: &$crate::method::MethodInfo = {
                        static INFO: $crate::method::MethodInfo = $crate::method::MethodInfo {
                            name: $name,
                            about: concat!($($doc),+),
                            rules: $rules,
                            params_schema: $crate::request::params_schema::<$params>,
                            reply_schema: $crate::request::reply_schema::<$answer>,
                        };
                        &INFO
                    };

                    fn request(params: $params) -> super::$request {
                        super::$request::$variant(params)
                    }

                    fn wrap(reply: $answer) -> super::$reply {
                        super::$reply::$variant(Box::new(reply))
                    }

                    fn unwrap(reply: super::$reply) -> Option<$answer> {
                        match reply {
                            super::$reply::$variant(reply) => Some(*reply),
                            _ => None,
                        }
                    }
                }
            )*
            $(
                $(#[doc = $mail_doc])+
                #[derive(Debug, Clone, Copy)]
                pub struct $mail_variant;

                impl $crate::method::Method for $mail_variant {
                    type Params = $mail_params;
                    type Reply = $mail_answer;
                    type Request = super::$request;
                    type AnyReply = super::$reply;

                    const INFO: &$crate::method::MethodInfo = {
                        static INFO: $crate::method::MethodInfo = $crate::method::MethodInfo {
                            name: $mail_name,
                            about: concat!($($mail_doc),+),
                            rules: $mail_rules,
                            params_schema: $crate::request::params_schema::<$mail_params>,
                            reply_schema: $crate::request::reply_schema::<$mail_answer>,
                        };
                        &INFO
                    };

                    fn request(params: $mail_params) -> super::$request {
                        super::$request::Mail(super::$mail_request::$mail_variant(params))
                    }

                    fn wrap(reply: $mail_answer) -> super::$reply {
                        super::$reply::Mail(super::$mail_reply::$mail_variant(Box::new(reply)))
                    }

                    fn unwrap(reply: super::$reply) -> Option<$mail_answer> {
                        match reply {
                            super::$reply::Mail(super::$mail_reply::$mail_variant(reply)) => Some(*reply),
                            _ => None,
                        }
                    }
                }
            )*
        }
    };
}
