//! Engines that bring contexts to a walker: live park, step, frozen.
