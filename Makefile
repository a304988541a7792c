# What a newcomer types. Everything else is `cargo` and `cargo xtask help`.

.PHONY: help demo test install

help:
	@echo 'make demo      build, then broadcast 256 MiB to 16 nodes in 4 clusters on this machine'
	@echo 'make test      everything that CI runs: tidy, fmt, clippy, doc, tests'
	@echo 'make install   build the command and put it into ~/.cargo/bin'
	@echo 'make help      this text'

demo:
	cargo run --release --package mobcast-cli --bin mobcast -- demo

test:
	cargo xtask ci

install:
	cargo install --locked --path crates/mobcast-cli
