//! From a sequence that fails to a short one that fails as well.

/// Leaves out pieces, large ones first, as long as the rest still fails; tries at most so often.
/// What remains fails, and is small enough to be read.
pub fn smallest<T: Clone>(failing: Vec<T>, tries: usize, mut fails: impl FnMut(&[T]) -> bool) -> Vec<T> {
    let (mut left, mut size, mut tries) = (failing, usize::MAX, tries);
    loop {
        size = size.min(left.len()).div_ceil(2);
        let mut at = 0;
        while at < left.len() {
            let mut without = left.clone();
            without.drain(at..(at + size).min(left.len()));
            if tries == 0 {
                return left;
            }
            tries -= 1;
            if fails(&without) {
                left = without;
            } else {
                at += size;
            }
        }
        if size <= 1 {
            return left;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_matter_is_left_out() {
        let fails = |steps: &[u32]| steps.contains(&7) && steps.contains(&40);
        assert_eq!(smallest((0..60).collect(), 1000, fails), [7, 40]);
        assert_eq!(smallest(vec![1], 1000, |_| true), Vec::<u32>::new());
        let mut asked = 0;
        let counted = |steps: &[u32]| {
            asked += 1;
            fails(steps)
        };
        let short = smallest((0..60).collect(), 20, counted);
        assert!(fails(&short) && short.len() < 60, "{short:?}");
        assert!(asked <= 20);
    }
}
