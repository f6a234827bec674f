//! Register contexts, perturbations, tiers and witness classes of asynchronous stack walks.
