#!/bin/sh
# udpcast: udpcast.sh root | receiver. Multicast with feedback, inside one cluster.
set -u

# The receiver's port of rendezvous as /proc/net/udp shows it: 9000, udpcast's default.
port=:2328

receiver() {
    udp-receiver --file "$LAB_OUT" --interface "$LAB_INTERFACE" --nokbd --no-progress --nosync >&2 </dev/null &
    program=$!
    trap 'kill "$program" 2>/dev/null; exit 143' TERM INT
    until grep -q "$port " /proc/net/udp; do
        kill -0 "$program" 2>/dev/null || exit 1
        sleep 0.02
    done
    echo ready
    wait "$program" || exit 1
    echo complete
}

# Networks here are switched, so full duplex. A lost connect request would block the start for ever without hellos
# again and again. Once it sends, udp-sender does not end on SIGTERM.
root() {
    udp-sender --file "$LAB_FILE" --interface "$LAB_INTERFACE" --nokbd --no-progress --full-duplex \
        --min-receivers "$((LAB_NODES - 1))" --rexmit-hello-interval 100 >&2 </dev/null &
    program=$!
    trap 'kill -KILL "$program" 2>/dev/null; exit 143' TERM INT
    wait "$program"
}

case ${1-} in
root | receiver) "$1" ;;
*)
    echo "usage: udpcast.sh root | receiver" >&2
    exit 2
    ;;
esac
