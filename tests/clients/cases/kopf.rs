use crate::cases::Case;
pub const CASES: &[Case] = &[];
