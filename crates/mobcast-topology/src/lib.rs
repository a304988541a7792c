//! Networks as data, and how fast a broadcast over them can be.
