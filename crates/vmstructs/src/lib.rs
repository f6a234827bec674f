//! Reading HotSpot's own structures over a Memory trait: code cache, threads, zones, landscape.
