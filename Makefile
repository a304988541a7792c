# What a newcomer types. Everything else is `cargo` and `cargo xtask help`.

.PHONY: help demo lab-demo test install

help:
	@echo 'make demo      build, then broadcast 256 MiB among 16 nodes in 4 clusters on this machine'
	@echo 'make lab-demo  build, then broadcast 64 MB over an emulated WAN of 4 x 4 nodes (needs root)'
	@echo 'make test      everything that CI runs: tidy, fmt, clippy, doc, tests'
	@echo 'make install   build the command and put it into ~/.cargo/bin'
	@echo 'make help      this text'

demo:
	cargo run --release --package mobcast-cli --bin mobcast -- demo

lab-demo:
	@[ "$$(id -u)" = 0 ] || { echo 'make lab-demo makes network namespaces, which needs root: sudo env "PATH=$$PATH" make lab-demo' >&2; exit 2; }
	cargo build --release --package mobcast-cli --package mobcast-lab
	rm -f target/lab-demo/demo.jsonl
	cargo run --quiet --release --package mobcast-lab -- run scenarios/experiments/demo.toml --accept-void --output target/lab-demo/demo.jsonl
	cargo run --quiet --release --package mobcast-lab -- report target/lab-demo/demo.jsonl --output target/lab-demo

test:
	cargo xtask ci

install:
	cargo install --locked --path crates/mobcast-cli
