//! Futures of one kind, polled until all are done.

use std::task::Poll;

pub(crate) async fn together<T>(futures: impl Iterator<Item = impl Future<Output = T>>) {
    let mut waiting: Vec<_> = futures.map(Box::pin).collect();
    std::future::poll_fn(|context| {
        waiting.retain_mut(|future| future.as_mut().poll(context).is_pending());
        if waiting.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}
