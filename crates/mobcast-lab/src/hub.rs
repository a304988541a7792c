//! The hub: a process through which everything passes that goes from cluster to cluster, with the rate, queue, loss and
//! delay of the WAN link that it takes.
//!
//! | module | what it holds |
//! |---|---|
//! | [`switch`] | the links and what is on them; knows no device and no clock |
//! | [`pipe`] | a queue and its serializer |
//! | [`packet`] | IP packets, and cutting large ones |
//! | [`streams`] | which bytes of a stream have passed |
//! | [`carry`] | the process: devices, time, requests |
//! | [`control`] | what the lab says to it, and what it answers |
//! | [`tun`] | the devices |

pub mod carry;
pub mod control;
pub mod packet;
pub mod pipe;
pub mod streams;
pub mod switch;
#[allow(unsafe_code, reason = "devices are made by ioctl")]
pub mod tun;
