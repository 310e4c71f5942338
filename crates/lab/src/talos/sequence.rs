//! What moves a node from stage to stage.
