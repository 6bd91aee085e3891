use crate::cases::Case;
pub const OWN: &[Case] = &[];
pub const CASES: &[Case] = &[];
