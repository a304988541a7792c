#!/bin/sh
# UFTP: uftp.sh root | receiver. Multicast at a fixed rate with NAKs, inside one cluster.
set -u

# UDP buffers: one that holds 0.3 s at 100 Mbit/s; the kernel cuts it to its rmem_max and wmem_max.
buffer_bytes=4194304
# The manual wants 100 to 200 bytes less than the MTU.
block_bytes=1400
# Of a known NIC rate; above 93 % the queue of the switch drops in bursts.
rate_percent=93
# For a network without a limit the processor is the limit; at 400 Mbit/s a namespace still keeps up.
unlimited_kbit_per_s=400000
# uftpd's port as /proc/net/udp shows it: 1044, its default.
port=:0414

# identity ADDRESS: UFTP's name of a node, by default its IPv4 address in hexadecimal.
identity() {
    # shellcheck disable=SC2046
    printf '0x%02X%02X%02X%02X' $(echo "$1" | tr . ' ')
}

rate_kbit_per_s() {
    if [ -z "$LAB_NIC_MB_PER_S" ]; then
        echo "$unlimited_kbit_per_s"
    else
        awk -v mb="$LAB_NIC_MB_PER_S" -v percent="$rate_percent" 'BEGIN { printf "%d", mb * 8000 * percent / 100 }'
    fi
}

# The daemon receives into a hidden file, renames it when it is whole, calls this very script with `-I SESSION FILE`,
# and stays for more. It closes the script's stdout: what the script says comes through a pipe with a name.
receiver() {
    directory=$LAB_DIR/uftp.$LAB_NODE
    mkdir -p "$directory"
    mkfifo "$directory/said"
    cat "$directory/said" &
    uftpd -d -q -t -I "$LAB_INTERFACE" -U "$(identity "$LAB_ADDRESS")" -B "$buffer_bytes" -D "$directory" \
        -s "$PWD/uftp.sh" >&2 </dev/null &
    program=$!
    trap 'kill "$program" 2>/dev/null; exit 143' TERM INT
    until grep -q "$port " /proc/net/udp; do
        kill -0 "$program" 2>/dev/null || exit 1
        sleep 0.02
    done
    echo ready
    wait "$program"
}

received() {
    mv "$1" "$LAB_OUT"
    echo complete >"$LAB_DIR/uftp.$LAB_NODE/said"
}

root() {
    hosts=
    while read -r rank _node _cluster address; do
        [ "$rank" = 0 ] || hosts=$hosts,$(identity "$address")
    done <"$LAB_HOSTS"
    exec uftp -I "$LAB_INTERFACE" -R "$(rate_kbit_per_s)" -B "$buffer_bytes" -b "$block_bytes" -Y none \
        -H "${hosts#,}" -D object "$LAB_FILE" >&2 </dev/null
}

case ${1-} in
root | receiver) "$1" ;;
-I) received "$3" ;;
*)
    echo "usage: uftp.sh root | receiver | -I SESSION FILE" >&2
    exit 2
    ;;
esac
