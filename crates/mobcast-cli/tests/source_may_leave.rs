//! What a script learns of the moment from which the source can be spared.

mod common;

use common::*;

#[test]
fn a_script_is_told_when_the_source_may_leave() {
    let dir = tempfile::tempdir().expect("tempdir");
    let ticket = dir.path().join("ticket");
    let from = format!("@{}", ticket.display());
    let send = ["send", "--json", "--quiet", "--listen", "127.0.0.1:0", "--receivers", "2", "synthetic:2MB"];
    let root = Process::start("send", mobcast().args(send).arg("--ticket-file").arg(&ticket));
    let receive = || Process::start("recv", mobcast().args(["recv", &from, "--quiet", "--verify-only", "--json"]));
    let receivers = [receive(), receive()];
    let line = root.expect_line("source_may_leave");
    let event: serde_json::Value = serde_json::from_str(&line).expect("the line is JSON and nothing else");
    assert_eq!(event["event"], "source_may_leave");
    assert!(event["seconds"].as_f64().is_some_and(|seconds| seconds > 0.0), "{line}");
    let report = root.succeeds().json();
    let (told, total) = (report["source_may_leave_seconds"].as_f64(), report["seconds"].as_f64());
    assert!(told.expect("it is in the report") <= total.expect("seconds"), "{report}");
    for receiver in receivers {
        let report = receiver.succeeds().json();
        assert!(report.get("source_may_leave_seconds").is_none(), "a receiver does not know it: {report}");
    }
}
