//! Copies one big thing to many machines, as fast as the networks between them allow.
