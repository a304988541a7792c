//! The measurement of the network: its orders travel in assignments, its results come as reports, and the plans are made for what
//! came of it.

use std::sync::Arc;

use super::*;
use crate::group::gauge::{Gauge, ProbeOrder, ProbeResult};

/// The coordinator's part in a measurement.
#[derive(Default)]
pub(super) struct Gauging {
    gauge: Option<Gauge>,
    /// Numbers of probes that were given out: each probe of a group has its own.
    numbers: u32,
    orders: BTreeMap<NodeId, Vec<ProbeOrder>>,
    /// Whom nodes connect to for it.
    dials: BTreeSet<(NodeId, NodeId)>,
}

impl Gauging {
    pub(super) fn orders_of(&self, node: NodeId) -> Vec<ProbeOrder> {
        self.orders.get(&node).cloned().unwrap_or_default()
    }

    pub(super) fn dials_of(&self, node: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        self.dials.range((node, NodeId(0))..=(node, NodeId(u32::MAX))).map(|&(_, peer)| peer)
    }

    pub(super) fn timeout(&self) -> Option<Time> {
        self.gauge.as_ref().map(Gauge::timeout)
    }
}

impl Coordinator {
    /// Has the members measure the network between their clusters. False if they are about it.
    pub fn measure(&mut self, now: Time) -> bool {
        if self.gauging.gauge.is_some() {
            return false;
        }
        self.gauging.gauge = Some(Gauge::new(now, &self.order(), self.gauging.numbers));
        self.advance_gauge(now);
        true
    }

    /// A member reports a probe.
    pub fn handle_probe_result(&mut self, now: Time, from: NodeId, result: ProbeResult) {
        if self.gauging.gauge.as_mut().is_some_and(|gauge| gauge.handle_result(from, result)) {
            self.advance_gauge(now);
        }
    }

    pub(super) fn gauge_without(&mut self, node: NodeId) {
        if let Some(gauge) = &mut self.gauging.gauge {
            gauge.handle_lost(node);
        }
    }

    pub(super) fn gauge_unreachable(&mut self, from: NodeId, to: NodeId) {
        if let Some(gauge) = &mut self.gauging.gauge {
            gauge.handle_unreachable(from, to);
        }
    }

    /// Goes on with the measurement, if there is one: tells members what has changed for them, and in the end the application.
    pub(super) fn advance_gauge(&mut self, now: Time) {
        let Some(mut gauge) = self.gauging.gauge.take() else { return };
        let order = self.order();
        let changed = gauge.advance(now, &order);
        self.gauging.numbers = gauge.numbers();
        if changed {
            self.give_orders(&gauge);
        }
        if gauge.is_over() {
            let measurement = gauge.conclude(now, &order);
            if let Some(network) = &measurement.network {
                self.plans.set_network(Arc::clone(network));
                self.replan();
            }
            self.publish();
            return self.decisions.push_back(Decision::Measured(Box::new(measurement)));
        }
        self.gauging.gauge = Some(gauge);
        if changed {
            self.publish();
        }
    }

    fn give_orders(&mut self, gauge: &Gauge) {
        let orders = gauge.orders();
        let is_new = |node: &NodeId| orders.get(node) != self.gauging.orders.get(node);
        let concerned: Vec<NodeId> =
            orders.keys().chain(self.gauging.orders.keys()).copied().filter(|node| is_new(node)).collect();
        self.changed.extend(concerned);
        self.gauging.dials = gauge.dials().filter_map(|(from, to)| self.missing_way(from, to)).collect();
        self.gauging.orders = orders;
    }
}
