//! WAN rates over time on M2.
use mobcast_sim::experiment::Experiment;
use mobcast_topology::{Scenario, preset};
fn main() {
    let argument = |i: usize, default: u64| std::env::args().nth(i).map_or(default, |a| a.parse().expect("a number"));
    let (nodes, mb, seed) = (argument(1, 16), argument(2, 600), argument(3, 1));
    let mut experiment = Experiment::new(Scenario::steady(preset::m2_fast(nodes as u32)), mb * 1_000_000, seed);
    experiment.settings.check_every = 0;
    let mut last = vec![vec![0u64; 4]; 4];
    let mut next = 0.0;
    println!("   t    AB    AC    AD    BC    BD    CB    CD    DB    DC | out(A) in(B) in(C) in(D)  dup exports");
    experiment.run_watched(|world, _| {
        let t = world.network.now().as_secs_f64();
        if t < next { return; }
        next += 3.0;
        let c = mobcast_topology::ClusterIndex;
        let mut rate = vec![vec![0.0; 4]; 4];
        for a in 0..4 { for b in 0..4 {
            let v = world.network.pair_traffic(c(a as u32), c(b as u32)).payload_bytes;
            rate[a][b] = (v - last[a][b]) as f64 / 3e6; last[a][b] = v;
        } }
        let r = &rate;
        println!("{t:5.1} {:5.2} {:5.2} {:5.2} {:5.2} {:5.2} {:5.2} {:5.2} {:5.2} {:5.2} | {:5.2} {:5.2} {:5.2} {:5.2}", r[0][1], r[0][2], r[0][3], r[1][2], r[1][3], r[2][1], r[2][3], r[3][1], r[3][2],
          r[0][1]+r[0][2]+r[0][3], r[0][1]+r[2][1]+r[3][1], r[0][2]+r[1][2]+r[3][2], r[0][3]+r[1][3]+r[2][3]);
    });
}
