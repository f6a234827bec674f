//! The mapped recorder, outcomes, histograms, findings and their schema.
