use super::*;

/// A jail whose holder is the test.
fn jail() -> (Jail, OwnedFd) {
    let ((init, _), (socket, holder)) = (channel::pair().unwrap(), channel::pair().unwrap());
    let holder_of_test = Holder { socket, pid_inside: 2, pid: 2, closed: Vec::new(), offer: Offer::None };
    let jail = Jail {
        init,
        pid: 1,
        pidfd: None,
        holder: Some(holder_of_test),
        listener: None,
        pids: BTreeMap::new(),
        ended: VecDeque::new(),
    };
    (jail, holder)
}

#[test]
fn a_holder_that_does_not_answer_as_it_should_is_not_asked_again() {
    for (answer, is_taken) in [("[4,5]", true), ("[4]", false), ("[4,5,6]", false), ("{}", false)] {
        let (mut jail, holder) = jail();
        let null = std::fs::File::open("/dev/null").unwrap();
        jail.offer(&[null.as_fd(), null.as_fd()]).unwrap();
        rustix::io::write(&holder, answer.as_bytes()).unwrap();
        let numbers: Option<Vec<i32>> =
            jail.take_offer().map(|shown| shown.iter().map(|shown| shown.number).collect());
        assert_eq!(numbers, is_taken.then(|| vec![4, 5]), "{answer}");
        assert_eq!(jail.holder.is_some(), is_taken, "{answer}");
    }
}
