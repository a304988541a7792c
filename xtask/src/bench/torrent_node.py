"""One libtorrent node, for `cargo xtask bench`.

make FILE TORRENT                      writes a torrent of FILE
node TORRENT DIR ADDRESS PEER,PEER,... seeds what is in DIR, or fetches it into there from the peers

A node says "ready", begins when a line comes in, says "done" when it has everything, and ends with its standard input;
its last line is the processor time in seconds since it was ready, so that the start of Python does not count.
Everything that is not about speed on a local network is off, and the disk is not asked what it has already.
"""

import os
import sys
import time

import libtorrent as lt

PORT = 6881
PIECE = 4 << 20


def make(path, torrent):
    files = lt.file_storage()
    lt.add_files(files, path)
    made = lt.create_torrent(files, PIECE, lt.create_torrent.v1_only)
    lt.set_piece_hashes(made, os.path.dirname(path))
    with open(torrent, "wb") as out:
        out.write(lt.bencode(made.generate()))


def settings(address):
    tuned = lt.high_performance_seed()
    off = "enable_dht enable_lsd enable_upnp enable_natpmp enable_incoming_utp enable_outgoing_utp smooth_connects"
    tuned.update({name: False for name in off.split()})
    tuned.update(
        listen_interfaces=f"{address}:{PORT}",
        allow_multiple_connections_per_ip=True,
        alert_mask=0,
        connection_speed=500,
        unchoke_slots_limit=-1,
        max_out_request_queue=1500,
        max_allowed_in_request_queue=3000,
        send_buffer_watermark=4 << 20,
        send_buffer_low_watermark=1 << 20,
        max_queued_disk_bytes=64 << 20,
        aio_threads=2,
        hashing_threads=2,
        in_enc_policy=2,
        out_enc_policy=2,
    )
    return tuned


def node(torrent, directory, address, peers):
    session = lt.session(settings(address))
    params = lt.add_torrent_params()
    params.ti = lt.torrent_info(torrent)
    params.save_path = directory
    seeds = os.path.exists(os.path.join(directory, params.ti.name()))
    params.flags = lt.torrent_flags.seed_mode if seeds else lt.torrent_flags.default_flags
    params.flags &= ~(lt.torrent_flags.auto_managed | lt.torrent_flags.paused)
    print("ready", flush=True)
    sys.stdin.readline()
    begin = time.process_time()
    handle = session.add_torrent(params)
    for peer in filter(None, peers.split(",")):
        handle.connect_peer((peer, PORT))
    while not handle.status().is_seeding:
        time.sleep(0.005)
    print("done", flush=True)
    sys.stdin.read()
    print(time.process_time() - begin, flush=True)
    os._exit(0)


if __name__ == "__main__":
    {"make": make, "node": node}[sys.argv[1]](*sys.argv[2:])
