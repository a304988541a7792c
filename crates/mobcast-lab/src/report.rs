//! Tables and charts from the lines that runs have written.
