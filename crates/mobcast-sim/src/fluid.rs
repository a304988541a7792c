//! Max-min fair sharing of capacities among flows, kept up to date as flows start and stop and capacities change.
//! Promises that [`Sharing::settle`] touches only what a change reaches; knows nothing of time, messages or networks.
//!
//! **The model.** A resource has a capacity, a flow crosses a few resources and may have a cap of its own. Each
//! resource has a *level*: the rate of those flows that it holds back, or infinity when it holds back none. A flow's
//! rate is the least of its cap and the levels on its path. The rates are max-min fair exactly when every resource's
//! level fits the levels of the others: the flows that it does not hold back take what they take, the rest share what
//! remains equally. So one resource at a time is brought into balance with its neighbours, and only a resource whose
//! load strays from its capacity needs to be looked at again. Repeated to the end this finds the max-min rates: the
//! scarcest resource is right after its first turn whatever the others say, then the second scarcest, and so on.
//!
//! **Exact or quick.** [`Precision::Exact`] goes on until every resource is in balance but for rounding (flows have
//! whole multiples of 1/16 byte per second). [`Precision::Quick`] lets a resource stray by 1/128 of its capacity and
//! gives each resource at most two turns in a call; what is still out of balance waits for the next call. Between a
//! flow's start and the next call it has a provisional rate: what is left on its path, or an equal share of the
//! scarcest resource if that is more. So for at most the time between two calls a resource may carry more than its
//! capacity by one share for each flow that started, or less by one share for each that stopped; the two even out.
//!
//! Small messages of idle flows need not take part: [`Sharing::charge`] counts their bytes, and [`Sharing::levy`] takes
//! them from the capacities a window later.

use std::collections::VecDeque;

/// Rates are held in sixteenths of a byte per second, so that rounding does not matter among ten thousand flows.
pub const RATE_UNITS: u64 = 16;
/// The rate of a flow that nothing limits: 10^12 bytes per second.
pub const RATE_MAX: u64 = 1_000_000_000_000 * RATE_UNITS;
/// Network card, access and WAN out, access and network card in.
pub const HOPS_MAX: usize = 5;

const UNLIMITED: u64 = u64::MAX;
const TURNS_QUICK: u32 = 2;
/// Far beyond what the longest chain of bottlenecks takes; met only if rounding makes two resources disagree forever.
const TURNS_EXACT: u32 = 10_000;
const SLACK_QUICK_SHIFT: u32 = 7;
const SLACK_EXACT_SHIFT: u32 = 40;
/// A reserve that changes by less than 1/512 of the capacity stays as it is.
const LEVY_SHIFT: u32 = 9;

/// A capacity that flows share.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ResourceIndex(pub u32);

/// How far [`Sharing::settle`] goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Precision {
    /// Until the rates are max-min fair.
    Exact,
    /// Until they are about fair; the rest in the next call.
    Quick,
}

#[derive(Debug)]
struct Resource {
    capacity: u64,
    /// Part of the capacity that small messages outside of the sharing take.
    reserved: u64,
    /// Bytes of such messages since the last [`Sharing::levy`].
    charged_bytes: u64,
    load: u64,
    /// Flows that are active, members or not.
    active: u32,
    turns: u32,
    dirty: bool,
    members: Vec<Member>,
}

/// A flow on a resource's list, and which hop of the flow the resource is.
#[derive(Clone, Copy, Debug)]
struct Member {
    flow: u32,
    hop: u32,
}

#[derive(Clone, Copy, Debug)]
struct Route {
    path: [u32; HOPS_MAX],
    /// Where the flow stands on each resource's list.
    place: [u32; HOPS_MAX],
    hops: u8,
    active: bool,
    member: bool,
    pending: bool,
    changed: bool,
    rate: u64,
    cap: u64,
}

impl Resource {
    /// What the sharing may give out.
    fn room(&self) -> u64 {
        if self.capacity == UNLIMITED { UNLIMITED } else { self.capacity - self.reserved.min(self.capacity) }
    }
}

impl Route {
    fn path(&self) -> &[u32] {
        &self.path[..usize::from(self.hops)]
    }
}

/// Resources, flows and the rates of the flows. Flows are numbered from 0 in the order of adding.
#[derive(Debug, Default)]
pub struct Sharing {
    resources: Vec<Resource>,
    /// Rate units; infinite for a resource that holds back nobody.
    levels: Vec<f64>,
    routes: Vec<Route>,
    dirty: VecDeque<u32>,
    pending: Vec<u32>,
    changed: Vec<u32>,
    /// Resources with something charged or reserved.
    charged: Vec<u32>,
    bounds: Vec<f64>,
    turned: Vec<u32>,
    turns_total: u64,
}

impl Sharing {
    /// Adds a resource with `rate_bytes_per_s`, or without a limit.
    pub fn add_resource(&mut self, rate_bytes_per_s: Option<u64>) -> ResourceIndex {
        let capacity = to_units(rate_bytes_per_s);
        let fresh = Resource {
            capacity,
            reserved: 0,
            charged_bytes: 0,
            load: 0,
            active: 0,
            turns: 0,
            dirty: false,
            members: Vec::new(),
        };
        self.resources.push(fresh);
        self.levels.push(f64::INFINITY);
        ResourceIndex((self.resources.len() - 1) as u32)
    }

    /// Changes a resource's capacity; rates follow in the next [`Sharing::settle`].
    pub fn set_capacity(&mut self, resource: ResourceIndex, rate_bytes_per_s: Option<u64>) {
        self.resources[resource.0 as usize].capacity = to_units(rate_bytes_per_s);
        self.mark(resource.0);
    }

    /// A resource's capacity in bytes per second.
    pub fn capacity_bytes_per_s(&self, resource: ResourceIndex) -> Option<u64> {
        let capacity = self.resources[resource.0 as usize].capacity;
        (capacity != UNLIMITED).then_some(capacity / RATE_UNITS)
    }

    /// What the flows of a resource take together, in bytes per second.
    pub fn load_bytes_per_s(&self, resource: ResourceIndex) -> u64 {
        self.resources[resource.0 as usize].load / RATE_UNITS
    }

    /// Adds an idle flow across `path`, with at most `cap_bytes_per_s` of its own. Returns its number.
    pub fn add_flow(&mut self, path: &[ResourceIndex], cap_bytes_per_s: Option<u64>) -> u32 {
        let mut route = Route {
            path: [0; HOPS_MAX],
            place: [0; HOPS_MAX],
            hops: 0,
            active: false,
            member: false,
            pending: false,
            changed: false,
            rate: 0,
            cap: to_units(cap_bytes_per_s).min(RATE_MAX),
        };
        set_path(&mut route, path);
        self.routes.push(route);
        (self.routes.len() - 1) as u32
    }

    /// Leads a flow across other resources; an active flow keeps its rate until the next [`Sharing::settle`].
    pub fn reroute(&mut self, flow: u32, path: &[ResourceIndex]) {
        let active = self.routes[flow as usize].active;
        if active {
            self.mark_path(flow);
            self.stop(flow);
        }
        if self.routes[flow as usize].member {
            self.detach(flow);
        }
        set_path(&mut self.routes[flow as usize], path);
        if active {
            self.start(flow);
        }
    }

    /// Limits one flow; its rate follows in the next [`Sharing::settle`].
    pub fn set_cap(&mut self, flow: u32, cap_bytes_per_s: Option<u64>) {
        self.routes[flow as usize].cap = to_units(cap_bytes_per_s).min(RATE_MAX);
        if self.routes[flow as usize].member {
            self.mark_path(flow);
        }
        if self.routes[flow as usize].active {
            self.hold(flow);
        }
    }

    /// A flow's rate in units of 1/16 byte per second; zero while it is idle.
    pub fn rate(&self, flow: u32) -> u64 {
        self.routes[flow as usize].rate
    }

    /// Makes a flow take part. Until the next [`Sharing::settle`] it has a provisional rate.
    pub fn start(&mut self, flow: u32) {
        let route = self.routes[flow as usize];
        debug_assert!(!route.active, "flow {flow} is active");
        for &resource in route.path() {
            self.resources[resource as usize].active += 1;
        }
        let rate = if route.member { self.fair_rate(&route) } else { self.provisional(&route, 0) };
        self.routes[flow as usize].active = true;
        self.apply(flow, rate);
        self.hold(flow);
    }

    /// Takes a flow out.
    pub fn stop(&mut self, flow: u32) {
        debug_assert!(self.routes[flow as usize].active, "flow {flow} is idle");
        self.apply(flow, 0);
        let route = &mut self.routes[flow as usize];
        route.active = false;
        for &resource in &route.path[..usize::from(route.hops)] {
            self.resources[resource as usize].active -= 1;
        }
        self.hold(flow);
    }

    /// The rate that an idle flow would start with, in units of 1/16 byte per second.
    pub fn prospective_rate(&self, flow: u32) -> u64 {
        self.provisional(&self.routes[flow as usize], 1)
    }

    /// Notes `bytes` that a flow sent beside the sharing, so that [`Sharing::levy`] takes them from its resources.
    pub fn charge(&mut self, flow: u32, bytes: u64) {
        let route = self.routes[flow as usize];
        for &resource in route.path() {
            let state = &mut self.resources[resource as usize];
            if state.capacity != UNLIMITED {
                if state.charged_bytes == 0 && state.reserved == 0 {
                    self.charged.push(resource);
                }
                state.charged_bytes += bytes;
            }
        }
    }

    /// Takes what was charged in the last `window_ns` nanoseconds from the capacities of the next ones. Returns whether
    /// there is anything to take or to give back at the end of the next window.
    pub fn levy(&mut self, window_ns: u64) -> bool {
        for resource in std::mem::take(&mut self.charged) {
            let state = &mut self.resources[resource as usize];
            let bytes = u128::from(std::mem::take(&mut state.charged_bytes));
            let rate = (bytes * u128::from(RATE_UNITS) * 1_000_000_000 / u128::from(window_ns.max(1))) as u64;
            let reserved = rate.min(state.capacity / 2);
            let differs = reserved.abs_diff(state.reserved) > state.capacity >> LEVY_SHIFT;
            if reserved == 0 || differs {
                state.reserved = reserved;
            }
            if state.reserved > 0 {
                self.charged.push(resource);
            }
            if differs {
                self.mark(resource);
            }
        }
        !self.charged.is_empty()
    }

    /// Whether anything waits for [`Sharing::levy`].
    pub fn has_charges(&self) -> bool {
        !self.charged.is_empty()
    }

    /// Whether rates are out of date.
    pub fn needs_settling(&self) -> bool {
        !self.dirty.is_empty() || !self.pending.is_empty()
    }

    /// Balancing steps so far: what the sharing has cost.
    pub fn turns_total(&self) -> u64 {
        self.turns_total
    }

    /// Brings the rates up to date and returns the flows whose rate changed since the last call, in a fixed order, by
    /// way of `visit`.
    pub fn settle(&mut self, precision: Precision, mut visit: impl FnMut(u32, u64)) {
        self.admit_and_dismiss(precision);
        let turns_max = if precision == Precision::Exact { TURNS_EXACT } else { TURNS_QUICK };
        let mut later = VecDeque::new();
        while let Some(resource) = self.dirty.pop_front() {
            let turns = &mut self.resources[resource as usize].turns;
            if *turns >= turns_max {
                later.push_back(resource);
                continue;
            }
            if *turns == 0 {
                self.turned.push(resource);
            }
            *turns += 1;
            self.resources[resource as usize].dirty = false;
            self.balance(resource, precision);
        }
        debug_assert!(precision == Precision::Quick || later.is_empty(), "exact sharing does not come to rest");
        self.dirty = later;
        for resource in self.turned.drain(..) {
            self.resources[resource as usize].turns = 0;
        }
        for flow in self.changed.drain(..) {
            let route = &mut self.routes[flow as usize];
            route.changed = false;
            visit(flow, route.rate);
        }
    }

    /// Flows that started or stopped since the last call join or leave the lists of their resources. A flow that did
    /// both costs nothing.
    fn admit_and_dismiss(&mut self, precision: Precision) {
        for flow in std::mem::take(&mut self.pending) {
            let route = &mut self.routes[flow as usize];
            route.pending = false;
            match (route.active, route.member) {
                (true, false) => {
                    self.attach(flow);
                    self.mark_path(flow);
                }
                (false, true) => self.detach_and_check(flow, precision),
                (true, true) | (false, false) => {}
            }
            let route = self.routes[flow as usize];
            if route.active && route.hops == 0 {
                self.apply(flow, route.cap);
            }
        }
    }

    fn attach(&mut self, flow: u32) {
        let route = &mut self.routes[flow as usize];
        route.member = true;
        for hop in 0..usize::from(route.hops) {
            let members = &mut self.resources[route.path[hop] as usize].members;
            route.place[hop] = members.len() as u32;
            members.push(Member { flow, hop: hop as u32 });
        }
    }

    fn detach(&mut self, flow: u32) {
        self.routes[flow as usize].member = false;
        let route = self.routes[flow as usize];
        for (hop, &resource) in route.path().iter().enumerate() {
            let members = &mut self.resources[resource as usize].members;
            let place = route.place[hop] as usize;
            members.swap_remove(place);
            if let Some(moved) = members.get(place) {
                self.routes[moved.flow as usize].place[moved.hop as usize] = place as u32;
            }
        }
    }

    fn detach_and_check(&mut self, flow: u32, precision: Precision) {
        self.detach(flow);
        let route = self.routes[flow as usize];
        for &resource in route.path() {
            if self.out_of_balance(resource, precision) {
                self.mark(resource);
            }
        }
    }

    /// Finds a resource's level from those of its neighbours and gives its flows their rates.
    fn balance(&mut self, resource: u32, precision: Precision) {
        self.turns_total += 1;
        let members = std::mem::take(&mut self.resources[resource as usize].members);
        let mut bounds = std::mem::take(&mut self.bounds);
        bounds.clear();
        bounds.extend(members.iter().map(|member| self.bound_elsewhere(*member)));
        let level = fair_level(self.resources[resource as usize].room(), &bounds);
        self.levels[resource as usize] = level;
        for (member, bound) in members.iter().zip(&bounds) {
            let rate = bound.min(level) as u64;
            if rate == self.routes[member.flow as usize].rate {
                continue;
            }
            self.apply(member.flow, rate);
            let route = self.routes[member.flow as usize];
            for &other in route.path().iter().filter(|other| **other != resource) {
                if self.out_of_balance(other, precision) {
                    self.mark(other);
                }
            }
        }
        self.bounds = bounds;
        self.resources[resource as usize].members = members;
    }

    /// What a flow's cap and its other resources let it have.
    fn bound_elsewhere(&self, member: Member) -> f64 {
        let route = &self.routes[member.flow as usize];
        let mut bound = route.cap as f64;
        for (hop, &resource) in route.path().iter().enumerate() {
            if hop != member.hop as usize {
                bound = bound.min(self.levels[resource as usize]);
            }
        }
        bound
    }

    /// Whether a resource's flows take more than it has, or less though it holds some of them back.
    fn out_of_balance(&self, resource: u32, precision: Precision) -> bool {
        let Resource { load, active, .. } = self.resources[resource as usize];
        let capacity = self.resources[resource as usize].room();
        if capacity == UNLIMITED {
            return self.levels[resource as usize].is_finite();
        }
        let slack = match precision {
            Precision::Exact => (capacity >> SLACK_EXACT_SHIFT) + u64::from(active),
            Precision::Quick => capacity >> SLACK_QUICK_SHIFT,
        };
        load > capacity + slack.min(capacity) || (load + slack < capacity && self.levels[resource as usize].is_finite())
    }

    /// A starting flow's rate before it is balanced: what its path has left, at least an equal share of its scarcest
    /// resource. `others` is 1 when the flow is not counted among the active ones.
    fn provisional(&self, route: &Route, others: u32) -> u64 {
        let mut rate = route.cap;
        for &resource in route.path() {
            let Resource { load, active, .. } = self.resources[resource as usize];
            let capacity = self.resources[resource as usize].room();
            if capacity != UNLIMITED {
                rate = rate.min((capacity / u64::from(active + others)).max(capacity.saturating_sub(load)));
            }
        }
        rate
    }

    fn fair_rate(&self, route: &Route) -> u64 {
        let levels = route.path().iter().map(|resource| self.levels[*resource as usize]);
        levels.fold(route.cap as f64, f64::min) as u64
    }

    fn apply(&mut self, flow: u32, rate: u64) {
        let route = &mut self.routes[flow as usize];
        let before = std::mem::replace(&mut route.rate, rate);
        if !route.changed {
            route.changed = true;
            self.changed.push(flow);
        }
        for &resource in &route.path[..usize::from(route.hops)] {
            let load = &mut self.resources[resource as usize].load;
            *load = *load - before + rate;
        }
    }

    fn hold(&mut self, flow: u32) {
        let route = &mut self.routes[flow as usize];
        if !route.pending {
            route.pending = true;
            self.pending.push(flow);
        }
    }

    fn mark_path(&mut self, flow: u32) {
        let route = self.routes[flow as usize];
        for &resource in route.path() {
            self.mark(resource);
        }
    }

    fn mark(&mut self, resource: u32) {
        let state = &mut self.resources[resource as usize];
        if !state.dirty {
            state.dirty = true;
            self.dirty.push_back(resource);
        }
    }
}

fn set_path(route: &mut Route, path: &[ResourceIndex]) {
    assert!(path.len() <= HOPS_MAX, "a path has at most {HOPS_MAX} resources");
    for (hop, resource) in path.iter().enumerate() {
        route.path[hop] = resource.0;
    }
    route.hops = path.len() as u8;
}

fn to_units(rate_bytes_per_s: Option<u64>) -> u64 {
    rate_bytes_per_s.map_or(UNLIMITED, |rate| rate.saturating_mul(RATE_UNITS).min(UNLIMITED - 1))
}

/// The level at which flows that could take `bounds` fill `capacity`; infinite when they all fit.
fn fair_level(capacity: u64, bounds: &[f64]) -> f64 {
    if capacity == UNLIMITED {
        return f64::INFINITY;
    }
    let capacity = capacity as f64;
    let mut level = capacity / bounds.len() as f64;
    let mut below_before = 0;
    loop {
        let (mut below, mut taken) = (0usize, 0.0);
        for bound in bounds {
            if *bound <= level {
                below += 1;
                taken += *bound;
            }
        }
        if below == bounds.len() {
            return f64::INFINITY;
        }
        // The level only rises from pass to pass, but for rounding when a bound equals it.
        if below <= below_before {
            return level;
        }
        below_before = below;
        level = (capacity - taken) / (bounds.len() - below) as f64;
    }
}
