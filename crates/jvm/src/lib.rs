//! Finding, installing, checking and starting a HotSpot JVM.
