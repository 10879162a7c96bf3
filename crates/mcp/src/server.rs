//! The MCP side of one client: which tools there are, and calls of them.

use std::convert::Infallible;
use std::sync::Arc;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CustomRequest, CustomResult, ErrorCode, Implementation,
    JsonObject, ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{NotificationContext, RequestContext};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use trl_client::Client;

use crate::channel;
use crate::guest::Guest;
use crate::http::{Guests, Head};
use crate::profile::Profile;
use crate::progress::Teller;
use crate::settings::{Channel, Settings};
use crate::toolbox::{self, Call};

const INSTRUCTIONS: &str = "Terminal Runtime: shells that keep their state between calls. `run` executes commands in your own \
    session; give `session` a name to separate or share work. Nothing blocks for ever: what takes long goes on under \
    an exec_id. What you start ends when you disconnect, unless keep=true.";

/// Answers one MCP client. Dropped, it lets go of all that the client did not ask to keep.
#[derive(Debug, Clone)]
pub struct Server {
    guest: Arc<Guest>,
    /// Clients without an MCP session of their own, told apart by name.
    guests: Option<Arc<Guests>>,
}

impl Server {
    pub fn new(client: Arc<Client>, settings: Arc<Settings>) -> Server {
        Server { guest: Arc::new(Guest::new(client, settings)), guests: None }
    }

    /// What goes on beside the calls, for as long as the client of this name is there.
    pub(crate) async fn beside_calls(&self, client_name: Option<&str>) -> Infallible {
        if let Some(name) = client_name {
            self.guest.call_it(name);
        }
        let settings = &self.guest.settings;
        match settings.present && settings.harness_session_id.is_some() {
            true => Arc::clone(&self.guest).stay_present().await,
            false => std::future::pending().await,
        }
    }

    /// The client leaves in good order.
    pub(crate) async fn leave(&self) {
        self.guest.connection_bound.leave().await;
    }

    pub(crate) fn among(guests: Arc<Guests>) -> Server {
        let guest = Arc::new(guests.stranger());
        Server { guest, guests: Some(guests) }
    }

    fn guest_of(&self, context: &RequestContext<RoleServer>) -> Arc<Guest> {
        let name = context.client_info().map(|info| info.name);
        let guest = match (&self.guests, Head::of(&context.extensions)) {
            (Some(guests), Some(head)) if !head.has_session() => {
                guests.of(name.as_deref().unwrap_or_default())
            }
            _ => Arc::clone(&self.guest),
        };
        if let Some(name) = name {
            guest.call_it(&name);
        }
        guest
    }

    fn profile(&self, context: &RequestContext<RoleServer>) -> Profile {
        let asked = Head::of(&context.extensions).and_then(|head| head.profile());
        asked.unwrap_or_else(|| self.guest.settings.profile.clone())
    }

    fn structured(&self, context: &RequestContext<RoleServer>) -> bool {
        let asked = Head::of(&context.extensions).and_then(|head| head.structured());
        asked.unwrap_or(self.guest.settings.structured)
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let mut capabilities = ServerCapabilities::builder().enable_tools().build();
        if self.guest.settings.channel != Channel::Off {
            let channel = (channel::CAPABILITY.to_owned(), JsonObject::new());
            capabilities.experimental = Some(std::iter::once(channel).collect());
        }
        ServerConfig::new(capabilities)
            .with_server_info(
                Implementation::new("trl", self.guest.settings.version.clone())
                    .with_title("Terminal Runtime"),
            )
            .with_instructions(INSTRUCTIONS)
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        if self.guest.settings.channel != Channel::Off {
            tokio::spawn(channel::tell(Arc::clone(&self.guest), context.peer));
        }
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(toolbox::definitions(
            &self.profile(&context),
            self.structured(&context),
        )))
    }

    /// A request of no known form. If its method is one that we have, it is the params that cannot be read.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        Err(match request.method.as_str() {
            "tools/call" => ErrorData::invalid_params(
                "the params of tools/call are an object with `name`, a string, and perhaps `arguments`, an object",
                None,
            ),
            "tools/list" | "initialize" | "ping" => {
                ErrorData::invalid_params(format!("the params of {} cannot be read", request.method), None)
            }
            _ => ErrorData::new(ErrorCode::METHOD_NOT_FOUND, request.method, None),
        })
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        toolbox::find(name).map(|entry| entry.tool.clone())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let profile = self.profile(&context);
        let Some(entry) = toolbox::offered(&profile).find(|entry| entry.tool.name == request.name) else {
            let fault = toolbox::no_such_tool(&request.name, &profile);
            return Ok(toolbox::refused(&fault, self.structured(&context)).into());
        };
        let token = context.meta.get_progress_token();
        let guest = self.guest_of(&context);
        guest.learn_harness(&serde_json::to_value(&context.meta).unwrap_or_default());
        let call = Call {
            guest,
            ct: context.ct.clone(),
            teller: Teller::new(context.peer.clone(), token),
            structured: self.structured(&context),
        };
        Ok((entry.call)(request.arguments.unwrap_or_default(), call).await.into())
    }
}
