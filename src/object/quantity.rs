//! Quantities of Kubernetes, such as `500Mi` and `100m`.
