//! Traffic between nodes of a lab, made by this process with sockets that it opens in their namespaces.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use socket2::SockRef;

use crate::error::LabError;
use crate::lab::LabNode;
use crate::namespace::in_namespace;

const BLOCK: usize = 1 << 18;
/// Bytes of a datagram that is a full packet.
const FULL: usize = 1_472;
/// Bytes of that packet.
const FULL_PACKET: f64 = 1_500.0;
/// Bytes of a datagram where only the number counts.
const SMALL: usize = 64;
/// Small datagrams sent at once, and the pause after them: 20,000 in a second.
const SMALL_TOGETHER: u32 = 20;
const SMALL_PAUSE: Duration = Duration::from_millis(1);
/// What a receiver may hold.
const RECEIVE_BYTES: usize = 4 << 20;
/// After this time without a datagram none comes any more.
const SILENCE: Duration = Duration::from_millis(500);
/// In which steps, in milliseconds, arrivals are counted.
const STEP_MS: u64 = 20;

fn at(node: &LabNode) -> impl FnOnce(io::Error) -> LabError + use<> {
    LabError::at(format!("a socket of {}", node.name))
}

/// TCP streams from one node to another that send as much as they can.
pub struct Streams {
    received: Arc<AtomicU64>,
    ends: Vec<TcpStream>,
    threads: Vec<JoinHandle<()>>,
}

impl Streams {
    /// Opens them.
    pub fn start(from: &LabNode, to: &LabNode, count: usize) -> Result<Streams, LabError> {
        let listener = in_namespace(&to.namespace, || TcpListener::bind((to.address.as_str(), 0)));
        let listener = listener.and_then(|listener| listener).map_err(at(to))?;
        let target = listener.local_addr().map_err(at(to))?;
        let mut streams = Streams { received: Arc::default(), ends: Vec::new(), threads: Vec::new() };
        for _ in 0..count {
            let out = in_namespace(&from.namespace, || TcpStream::connect(target)).and_then(|stream| stream);
            let mut out = out.map_err(at(from))?;
            let (mut into, _) = listener.accept().map_err(at(to))?;
            for stream in [&out, &into] {
                streams.ends.push(stream.try_clone().map_err(at(to))?);
            }
            let received = Arc::clone(&streams.received);
            streams.threads.push(std::thread::spawn(move || {
                let block = vec![0; BLOCK];
                while out.write_all(&block).is_ok() {}
            }));
            streams.threads.push(std::thread::spawn(move || {
                let mut block = vec![0; BLOCK];
                while let Ok(bytes @ 1..) = into.read(&mut block) {
                    received.fetch_add(bytes as u64, Ordering::Relaxed);
                }
            }));
        }
        Ok(streams)
    }

    /// Bytes that have arrived.
    pub fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }
}

impl Drop for Streams {
    fn drop(&mut self) {
        for end in &self.ends {
            // It is closed when its thread ends.
            let _ = end.shutdown(Shutdown::Both);
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Datagrams from one node to another.
pub struct Datagrams {
    out: UdpSocket,
    into: UdpSocket,
}

impl Datagrams {
    /// Opens a socket on each.
    pub fn open(from: &LabNode, to: &LabNode) -> Result<Datagrams, LabError> {
        let socket = |node: &LabNode| {
            let socket = in_namespace(&node.namespace, || UdpSocket::bind((node.address.as_str(), 0)));
            socket.and_then(|socket| socket).map_err(at(node))
        };
        let (out, into) = (socket(from)?, socket(to)?);
        let connected = out.connect(into.local_addr().map_err(at(to))?);
        connected.map_err(at(from))?;
        into.set_read_timeout(Some(SILENCE)).map_err(at(to))?;
        // A busy receiver must not be taken for a lossy link.
        SockRef::from(&into).set_recv_buffer_size(RECEIVE_BYTES).map_err(at(to))?;
        out.set_read_timeout(Some(SILENCE)).map_err(at(from))?;
        Ok(Datagrams { out, into })
    }

    /// Times of so many round trips, one after the other, in milliseconds.
    pub fn round_trips_ms(&self, count: usize) -> Result<Vec<f64>, LabError> {
        let trip = || -> io::Result<f64> {
            let (mut block, start) = ([0; SMALL], Instant::now());
            self.out.send(&block)?;
            let (bytes, sender) = self.into.recv_from(&mut block)?;
            self.into.send_to(&block[..bytes], sender)?;
            self.out.recv(&mut block)?;
            Ok(start.elapsed().as_secs_f64() * 1e3)
        };
        // The first one finds the ways.
        (0..=count).map(|_| trip()).skip(1).collect::<io::Result<Vec<f64>>>().map_err(LabError::at("round trips"))
    }

    /// Sends so many small ones and counts those that arrive.
    pub fn flood(&self, count: u32) -> Result<u32, LabError> {
        std::thread::scope(|scope| {
            let arrived = scope.spawn(|| {
                let (mut block, mut arrived) = ([0; SMALL], 0);
                while self.into.recv(&mut block).is_ok() {
                    arrived += 1;
                }
                arrived
            });
            for number in 0..count {
                self.out.send(&[0; SMALL]).map_err(LabError::at("datagrams"))?;
                if number % SMALL_TOGETHER == 0 {
                    std::thread::sleep(SMALL_PAUSE);
                }
            }
            Ok(arrived.join().expect("it counts"))
        })
    }

    /// Sends full packets at `rate` bytes per second for this time. How many bytes of packets arrive in each step of 20 ms.
    pub fn arrivals(&self, time: Duration, rate: u64) -> Result<Vec<f64>, LabError> {
        let start = Instant::now();
        std::thread::scope(|scope| {
            let counted = scope.spawn(|| {
                let (mut block, mut steps) = ([0; FULL], Vec::new());
                loop {
                    match self.into.recv(&mut block) {
                        Ok(_) => {
                            let step = start.elapsed().as_millis() as usize / STEP_MS as usize;
                            steps.resize(steps.len().max(step + 1), 0.0);
                            steps[step] += FULL_PACKET;
                        }
                        Err(error) if error.kind() == ErrorKind::Interrupted => {}
                        Err(_) => return steps,
                    }
                }
            });
            let mut sent = 0.0;
            while start.elapsed() < time {
                while sent < start.elapsed().as_secs_f64() * rate as f64 {
                    self.out.send(&[0; FULL]).map_err(LabError::at("datagrams"))?;
                    sent += FULL_PACKET;
                }
                std::thread::sleep(Duration::from_micros(500));
            }
            Ok(counted.join().expect("it counts"))
        })
    }
}

/// How long after `at_ms` arrivals were within 10 % of `rate` bytes per second, and stayed there for 200 ms.
pub fn takes_effect_ms(arrivals: &[f64], at_ms: u64, rate: f64) -> f64 {
    let first = (at_ms / STEP_MS) as usize;
    let step = rate * STEP_MS as f64 / 1e3;
    let near = |bytes: &f64| (bytes / step - 1.0).abs() < 0.1;
    let mean = |steps: &[f64]| steps.iter().sum::<f64>() / steps.len() as f64;
    let found = (first..arrivals.len().saturating_sub(10))
        .find(|&i| near(&arrivals[i]) && near(&mean(&arrivals[i..i + 10])))
        .unwrap_or(arrivals.len());
    (found - first.min(found)) as f64 * STEP_MS as f64
}

/// The value in the middle.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_moment_of_a_change_is_seen() {
        let mut arrivals = vec![200_000.0; 50];
        arrivals.extend([130_000.0, 100_000.0]);
        arrivals.extend([60_000.0; 30]);
        assert_eq!(takes_effect_ms(&arrivals, 1_000, 3e6), 40.0);
        assert_eq!(takes_effect_ms(&arrivals, 1_000, 9e6), 32.0 * 20.0, "never");
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
    }
}
