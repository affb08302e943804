//! Mode pages: Caching, Control, Informational Exceptions Control (SBC-3 6.5, SPC-4 7.5).
//!
//! Three bits can be changed: WCE, D_SENSE and SWP. All else in the pages is fixed.

/// The bits that an initiator can change.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct ModeBits {
    /// The write cache is on.
    pub(crate) write_cache: bool,
    /// Sense data is in descriptor format.
    pub(crate) descriptor_sense: bool,
    /// The unit refuses writes (software write protect).
    pub(crate) write_protect: bool,
}

/// Page codes, in the order of "all pages".
pub(crate) const CODES: [u8; 3] = [CACHING, CONTROL, EXCEPTIONS];
pub(crate) const CACHING: u8 = 0x08;
pub(crate) const CONTROL: u8 = 0x0a;
pub(crate) const EXCEPTIONS: u8 = 0x1c;

/// Version of the saved form.
const VERSION: u8 = 1;

impl ModeBits {
    /// Every bit set: what the "changeable values" show.
    pub(crate) const CHANGEABLE: Self =
        Self { write_cache: true, descriptor_sense: true, write_protect: true };

    /// A page with these bits, from its page code on; without what is fixed if `changeable`. `None`
    /// for an unknown code.
    pub(crate) fn page(self, code: u8, changeable: bool) -> Option<Vec<u8>> {
        let fixed = |byte| if changeable { 0 } else { byte };
        let bit = |set, mask| if set { mask } else { 0 };
        let page = match code {
            CACHING => {
                let mut page = vec![0; 20];
                page[2] = bit(self.write_cache, 0x04);
                page
            }
            CONTROL => {
                let mut page = vec![0; 12];
                // One task set for all nexuses; commands may be reordered.
                page[2] = bit(self.descriptor_sense, 0x04);
                page[3] = fixed(0x10);
                page[4] = bit(self.write_protect, 0x08);
                page[8..10].fill(fixed(0xff));
                page
            }
            EXCEPTIONS => vec![0; 12],
            _ => return None,
        };
        Some(Self::with_head(page, code))
    }

    fn with_head(mut page: Vec<u8>, code: u8) -> Vec<u8> {
        page[0] = code;
        page[1] = u8::try_from(page.len() - 2).unwrap_or(0);
        page
    }

    /// The bits after a page was written over these: the offset of the first byte that cannot be
    /// changed so is the error. `page` begins with its page code, which [`ModeBits::page`] knows,
    /// and has the page's length.
    pub(crate) fn changed_by(self, page: &[u8]) -> Result<Self, usize> {
        let code = page.first().map_or(0, |byte| byte & 0x3f);
        let current = self.page(code, false).unwrap_or_default();
        let changeable = Self::CHANGEABLE.page(code, true).unwrap_or_default();
        for (at, byte) in page.iter().enumerate().skip(2) {
            let (now, mask) = (current.get(at), changeable.get(at));
            if now.zip(mask).is_none_or(|(now, mask)| (now ^ byte) & !mask != 0) {
                return Err(at);
            }
        }
        let is_set = |at: usize, mask| page.get(at).is_some_and(|byte| byte & mask != 0);
        Ok(match code {
            CACHING => Self { write_cache: is_set(2, 0x04), ..self },
            CONTROL => {
                Self { descriptor_sense: is_set(2, 0x04), write_protect: is_set(4, 0x08), ..self }
            }
            _ => self,
        })
    }

    /// The saved form.
    pub(crate) fn save(self) -> [u8; 2] {
        let bits = [self.write_cache, self.descriptor_sense, self.write_protect];
        let value =
            bits.iter().enumerate().fold(0, |value, (at, bit)| value | u8::from(*bit) << at);
        [VERSION, value]
    }

    /// Reads the saved form; `None` if it is none.
    pub(crate) fn load(saved: &[u8]) -> Option<Self> {
        let [VERSION, bits @ 0..8] = saved else { return None };
        Some(Self {
            write_cache: bits & 1 != 0,
            descriptor_sense: bits & 2 != 0,
            write_protect: bits & 4 != 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn saved_bits_come_back() {
        for bits in 0..8 {
            let mode = ModeBits::load(&[VERSION, bits]).unwrap();
            assert_eq!(mode.save(), [VERSION, bits]);
        }
        for damaged in [&[][..], &[VERSION], &[VERSION, 8], &[2, 0], &[VERSION, 0, 0]] {
            assert_eq!(ModeBits::load(damaged), None);
        }
    }

    #[test]
    fn only_three_bits_change() {
        let start = ModeBits::default();
        for code in CODES {
            let page = start.page(code, false).unwrap();
            assert_eq!(start.changed_by(&page), Ok(start));
            for at in 2..page.len() {
                for bit in 0..8 {
                    let mut changed = page.clone();
                    changed[at] ^= 1 << bit;
                    let may = [(CACHING, 2, 2), (CONTROL, 2, 2), (CONTROL, 4, 3)]
                        .contains(&(code, at, bit));
                    let result = start.changed_by(&changed);
                    assert_eq!(result.is_ok(), may, "{code:#x} {at} {bit}");
                    match result {
                        Ok(after) => assert_eq!(after.page(code, false).unwrap(), changed),
                        Err(place) => assert_eq!(place, at),
                    }
                }
            }
        }
        assert_eq!(start.page(0x3e, false), None);
    }
}
