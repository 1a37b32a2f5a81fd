//! Look-aside cache of finished bodies: an in-process tier that never keeps an answer older than an invalidation.
