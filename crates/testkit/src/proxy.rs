//! A way to a server that a test can cut and heal, as a network does.

use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    target: SocketAddr,
    cut: AtomicBool,
    ended: AtomicBool,
    count: AtomicU64,
    open: Mutex<HashMap<u64, TcpStream>>,
}

impl Proxy {
    pub fn to(target: SocketAddr) -> Proxy {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = listener.local_addr().expect("its address");
        let shared = Arc::new(Shared {
            target,
            cut: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            count: AtomicU64::new(0),
            open: Mutex::default(),
        });
        let accepting = Arc::clone(&shared);
        thread::spawn(move || accepting.accept(&listener));
        Proxy { address, shared }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn url(&self) -> String {
        format!("nats://{}", self.address)
    }

    /// Breaks every connection and lets no new one through.
    pub fn cut(&self) {
        self.shared.cut.store(true, Ordering::SeqCst);
        self.shared.drop_all();
    }

    pub fn heal(&self) {
        self.shared.cut.store(false, Ordering::SeqCst);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::SeqCst);
        self.cut();
        // Wakes the thread that accepts, which then ends.
        drop(TcpStream::connect(self.address));
    }
}

impl Shared {
    fn drop_all(&self) {
        for (_, stream) in self.open.lock().expect("the connections").drain() {
            drop(stream.shutdown(Shutdown::Both));
        }
    }

    fn accept(self: Arc<Self>, listener: &TcpListener) {
        while let Ok((client, _)) = listener.accept() {
            if self.ended.load(Ordering::SeqCst) {
                return;
            }
            if self.cut.load(Ordering::SeqCst) {
                continue;
            }
            let Ok(server) = TcpStream::connect(self.target) else { continue };
            drop((client.set_nodelay(true), server.set_nodelay(true)));
            let pairs = [(client.try_clone(), server.try_clone()), (server.try_clone(), client.try_clone())];
            for (from, to) in pairs {
                if let (Ok(from), Ok(to)) = (from, to) {
                    let shared = Arc::clone(&self);
                    thread::spawn(move || shared.carry(from, to));
                }
            }
        }
    }

    /// Until either side ends, or the way is cut: then what is under way is lost.
    fn carry(&self, mut from: TcpStream, mut to: TcpStream) {
        let number = self.count.fetch_add(1, Ordering::SeqCst);
        if let Ok(stream) = from.try_clone() {
            self.open.lock().expect("the connections").insert(number, stream);
        }
        let mut bytes = [0; 16 * 1024];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            if self.cut.load(Ordering::SeqCst) || to.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
        drop((from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both)));
        self.open.lock().expect("the connections").remove(&number);
    }
}
