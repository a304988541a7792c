"""One libtorrent node: torrent_node.py default|tuned, started on the root and on every receiver.

The nodes meet through files in LAB_DIR, which costs the emulated network nothing: the root makes the torrent and puts
it there; each node adds it and says so with a file of its own; when all have, the root lets them connect and says
`start`. Connecting earlier would stall: a node refuses peers for a torrent that it has not added yet, and they come
back a minute later. Of each pair the node of the higher rank connects, since simultaneous connects can cost both.
"""

import os
import sys
import time

import libtorrent as lt

PORT = 6881
# The settings that were the best of ten on one switch of 100 Mbit/s; the default is libtorrent's own choice by size.
TUNED_PIECE_BYTES = 64 << 10
TUNED_UNCHOKE_SLOTS = 4
MEETING_POLL_S = 0.005
ALERT_WAIT_MS = 1000


def path(name):
    return os.path.join(os.environ["LAB_DIR"], name)


def say(line):
    print(line, flush=True)


def settings(tuned):
    """libtorrent's settings: what a network without an outside needs, and the tuning on top of it."""
    chosen = {
        "listen_interfaces": f"{os.environ['LAB_ADDRESS']}:{PORT}",
        "alert_mask": lt.alert.category_t.status_notification | lt.alert.category_t.error_notification,
        "enable_dht": False,
        "enable_lsd": False,
        "enable_upnp": False,
        "enable_natpmp": False,
    }
    if tuned:
        chosen.update(
            enable_incoming_utp=False,
            enable_outgoing_utp=False,
            in_enc_policy=2,
            out_enc_policy=2,
            smooth_connects=False,
            connection_speed=500,
            connections_limit=1000,
            request_queue_time=1,
            unchoke_slots_limit=TUNED_UNCHOKE_SLOTS,
        )
    return chosen


def publish(name, content=b""):
    """A file in LAB_DIR that appears whole or not at all."""
    with open(path(name + ".part"), "wb") as out:
        out.write(content)
    os.rename(path(name + ".part"), path(name))


def wait_for(*names):
    for name in names:
        while not os.path.exists(path(name)):
            time.sleep(MEETING_POLL_S)


def make_torrent(tuned):
    file = os.environ["LAB_FILE"]
    files = lt.file_storage()
    lt.add_files(files, file)
    made = lt.create_torrent(files, TUNED_PIECE_BYTES if tuned else 0, lt.create_torrent.v1_only)
    lt.set_piece_hashes(made, os.path.dirname(file))
    publish("object.torrent", lt.bencode(made.generate()))


def add(session, is_root):
    """Adds the torrent; the root has its content already, a receiver writes it to LAB_OUT."""
    wait_for("object.torrent")
    params = lt.add_torrent_params()
    params.ti = lt.torrent_info(path("object.torrent"))
    here = os.environ["LAB_FILE" if is_root else "LAB_OUT"]
    params.save_path, name = os.path.split(here)
    params.ti.rename_file(0, name)
    params.flags = lt.torrent_flags.default_flags | lt.torrent_flags.disable_pex
    params.flags &= ~(lt.torrent_flags.auto_managed | lt.torrent_flags.paused)
    if is_root:
        params.flags |= lt.torrent_flags.seed_mode
    return session.add_torrent(params)


def peers_below(rank):
    with open(os.environ["LAB_HOSTS"]) as hosts:
        nodes = [line.split() for line in hosts]
    return [address for other, _node, _cluster, address in nodes if int(other) < rank]


def wait_until_complete(session):
    while True:
        session.wait_for_alert(ALERT_WAIT_MS)
        for alert in session.pop_alerts():
            if isinstance(alert, lt.torrent_finished_alert):
                return
            if alert.category() & lt.alert.category_t.error_notification:
                print(alert.message(), file=sys.stderr, flush=True)


def main():
    tuned = {"default": False, "tuned": True}[sys.argv[1]]
    rank = int(os.environ["LAB_RANK"])
    session = lt.session(settings(tuned))
    if rank == 0:
        make_torrent(tuned)
    else:
        say("ready")
    handle = add(session, rank == 0)
    publish(f"added.{rank}")
    if rank == 0:
        wait_for(*(f"added.{other}" for other in range(int(os.environ["LAB_NODES"]))))
        say("start")
        publish("go")
    wait_for("go")
    for address in peers_below(rank):
        handle.connect_peer((address, PORT))
    if rank != 0:
        wait_until_complete(session)
        say("complete")
    # Seeds until it is ended: others may still need it.
    while True:
        time.sleep(1)


if __name__ == "__main__":
    main()
