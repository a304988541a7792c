//! Panics as values: what the world and the core assert is a violation of one run, and the search goes on with the next.
//! Nothing is printed of them; other threads panic as ever.

use std::cell::RefCell;
use std::panic::{self, UnwindSafe};
use std::sync::Once;

/// A panic.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Caught {
    /// Where, as FILE:LINE.
    pub(super) place: String,
    /// What was said.
    pub(super) message: String,
}

thread_local! {
    /// Set while this thread catches: what its last panic was.
    static CATCHING: RefCell<Option<Option<Caught>>> = const { RefCell::new(None) };
}

static HOOK: Once = Once::new();

/// Runs `f`; a panic in it is returned and not printed.
pub(super) fn catch<T>(f: impl FnOnce() -> T + UnwindSafe) -> Result<T, Caught> {
    HOOK.call_once(|| {
        let others = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let place = info.location().map(|at| format!("{}:{}", at.file(), at.line())).unwrap_or_default();
            let message = info.payload_as_str().unwrap_or("a panic without words").to_owned();
            let kept = CATCHING.with_borrow_mut(|catching| {
                catching.as_mut().map(|caught| *caught = Some(Caught { place, message })).is_some()
            });
            if !kept {
                others(info);
            }
        }));
    });
    CATCHING.set(Some(None));
    let result = panic::catch_unwind(f);
    let caught = CATCHING.take().flatten();
    result.map_err(|_| caught.expect("the hook has seen the panic"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_a_value_with_its_place() {
        let caught = catch(|| panic!("no {}", 7)).map(|()| 0).unwrap_err();
        assert_eq!(caught.message, "no 7");
        assert!(caught.place.contains("caught.rs:"), "{}", caught.place);
        assert_eq!(catch(|| 5), Ok(5));
    }
}
