//! Directories: what of a tree is kept, and that many small files are no burden.

mod common;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixListener;

use common::{Experiment, skipped, tree};

#[test]
fn a_tree_arrives_as_it_is() {
    let experiment = Experiment::new();
    let source = experiment.directory("source");
    tree::of_every_kind(&source);
    let send = experiment.send([source.as_os_str(), "--receivers=2".as_ref()]);
    let receivers = ["a", "b"].map(|name| experiment.recv(name, [name]));
    receivers.into_iter().for_each(|receiver| drop(receiver.succeeds()));
    send.succeeds();
    let expected = tree::describe(&source);
    assert!(expected.len() > 12, "{expected:?}");
    for copy in ["a", "b"] {
        assert_eq!(tree::describe(&experiment.path(copy)), expected);
        let sparse = fs::metadata(experiment.path(copy).join("sparse")).expect("there");
        assert!(sparse.blocks() * 512 < tree::SPARSE_BYTES / 8, "{} blocks", sparse.blocks());
    }
}

#[test]
fn set_uid_is_dropped_unless_it_is_to_be_preserved() {
    let experiment = Experiment::new();
    let source = experiment.directory("source");
    for (name, mode) in [("set-uid", 0o4755), ("set-gid", 0o2755)] {
        fs::write(source.join(name), name).expect("written");
        tree::set_mode(&source.join(name), mode);
    }
    let send = experiment.send([source.as_os_str(), "--receivers=2".as_ref()]);
    let (safe, same) = (experiment.recv("safe", ["safe"]), experiment.recv("same", ["same", "--preserve"]));
    safe.succeeds();
    same.succeeds();
    send.succeeds();
    let mode = |path: &str| fs::metadata(experiment.path(path)).expect("there").mode() & 0o7777;
    assert_eq!((mode("safe/set-uid"), mode("safe/set-gid")), (0o755, 0o755));
    assert_eq!((mode("same/set-uid"), mode("same/set-gid")), (0o4755, 0o2755));
}

#[test]
fn owners_are_kept_by_root_if_they_are_to_be_preserved() {
    if !rustix::process::geteuid().is_root() {
        return skipped("only root can give files to others");
    }
    let experiment = Experiment::new();
    let source = experiment.directory("source");
    fs::write(source.join("file"), "x").expect("written");
    std::os::unix::fs::chown(source.join("file"), Some(12_345), Some(54_321)).expect("given away");
    let send = experiment.send([source.as_os_str(), "--receivers=2".as_ref()]);
    let (own, same) = (experiment.recv("own", ["own"]), experiment.recv("same", ["same", "--preserve"]));
    own.succeeds();
    same.succeeds();
    send.succeeds();
    let owner = |path: &str| fs::metadata(experiment.path(path)).map(|file| (file.uid(), file.gid())).expect("there");
    assert_eq!(owner("own/file").0, rustix::process::geteuid().as_raw());
    assert_eq!(owner("same/file"), (12_345, 54_321));
}

#[test]
fn ten_thousand_small_files_are_no_burden() {
    let experiment = Experiment::new();
    let source = experiment.directory("source");
    let data = common::data(10_000 + 600);
    for directory in 0..100 {
        let directory_path = source.join(directory.to_string());
        fs::create_dir(&directory_path).expect("made");
        for file in 0..100 {
            let at = directory * 100 + file;
            fs::write(directory_path.join(file.to_string()), &data[at..at + at % 600]).expect("written");
        }
    }
    let send = experiment.send([source.as_os_str(), "--receivers=2".as_ref(), "--json".as_ref()]);
    let receivers = ["a", "b"].map(|name| experiment.recv(name, [name]));
    receivers.into_iter().for_each(|receiver| drop(receiver.succeeds()));
    let report = send.succeeds().json();
    assert!(report["pieces"].as_u64().is_some_and(|pieces| pieces < 1_000), "packed, not one by one: {report}");
    let expected = tree::describe(&source);
    for copy in ["a", "b"] {
        assert!(tree::describe(&experiment.path(copy)) == expected, "{copy}");
    }
}

#[test]
fn an_empty_directory_is_a_tree() {
    let experiment = Experiment::new();
    let source = experiment.directory("source");
    let send = experiment.send([source.as_os_str(), "--receivers=1".as_ref()]);
    experiment.recv("a", ["copy"]).succeeds();
    send.succeeds();
    assert_eq!(tree::describe(&experiment.path("copy")), tree::describe(&source));
}

#[test]
fn a_socket_in_a_tree_is_refused_by_its_path() {
    let experiment = Experiment::new();
    let source = experiment.directory("source");
    let _socket = UnixListener::bind(source.join("socket")).expect("bound");
    let ended = experiment.send([source]).ends_with(1);
    assert!(ended.complaint().contains("source/socket: it is a socket"), "{}", ended.stderr);
    assert!(ended.stdout.is_empty());
}

#[test]
fn a_tree_cannot_go_to_a_pipe() {
    let experiment = Experiment::new();
    let source = experiment.directory("source");
    let _send = experiment.send([source]);
    let ended = experiment.recv("a", ["-"]).ends_with(1);
    assert!(ended.complaint().contains("give a destination path"), "{}", ended.stderr);
    assert!(ended.stdout.is_empty());
}
