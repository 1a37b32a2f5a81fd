use super::*;

fn recorder() -> Recorder {
    let mut recorder = Recorder::new(&Registry::new());
    recorder.start(Instant::now());
    recorder
}

fn sum(measured: &Measured, metric: MetricId) -> f64 {
    let Sink::Counter { sum, .. } = measured.sinks[metric.0 as usize] else { panic!() };
    sum
}

#[test]
fn nothing_is_kept_before_the_start() {
    let mut recorder = Recorder::new(&Registry::new());
    recorder.add(Builtin::Iterations.id(), 1.0, &SampleTags::default());
    recorder.check(GroupId::ROOT, "c", true, &SampleTags::default());
    recorder.start(Instant::now());
    recorder.add(Builtin::Iterations.id(), 1.0, &SampleTags::default());
    let measured = recorder.finish();
    assert_eq!(sum(&measured, Builtin::Iterations.id()), 1.0);
    assert!(measured.groups[0].checks.is_empty());
}

#[test]
fn sub_metrics_only_count_values_with_their_tags() {
    let mut registry = Registry::new();
    let filter = TagFilter::new(vec![("scenario".into(), "a".into())]);
    let sub = registry.define_sub("iterations{scenario:a}", Builtin::Iterations.id(), filter);
    let mut recorder = Recorder::new(&registry);
    recorder.start(Instant::now());
    for scenario in ["a", "b", "a"] {
        let tags = SampleTags { scenario, ..SampleTags::default() };
        recorder.add(Builtin::Iterations.id(), 1.0, &tags);
    }
    let measured = recorder.finish();
    assert_eq!(sum(&measured, sub), 2.0);
    assert_eq!(sum(&measured, Builtin::Iterations.id()), 3.0);
}

#[test]
fn endless_names_of_checks_and_groups_stay_bounded() {
    let mut recorder = recorder();
    for index in 0..MAX_CHECKS + 100 {
        recorder.check(GroupId::ROOT, &format!("check {index}"), true, &SampleTags::default());
        recorder.group(GroupId::ROOT, &format!("group {index}"));
    }
    let measured = recorder.finish();
    assert!(measured.groups.len() <= MAX_GROUPS + 1);
    assert!(measured.groups[0].checks.len() <= MAX_CHECKS + 1);
    let other = measured.groups[0].checks.iter().find(|(name, _)| name == OVERFLOW_NAME);
    assert_eq!(other.unwrap().1.passes, 100);
}

#[test]
fn groups_and_checks_of_two_loops_are_joined_by_name() {
    let measure = |order: [&str; 2]| {
        let mut recorder = recorder();
        for name in order {
            let group = recorder.group(GroupId::ROOT, name);
            let inner = recorder.group(group, "inner");
            recorder.check(inner, "c", name == "a", &SampleTags::default());
        }
        recorder.finish()
    };
    let mut merged = measure(["a", "b"]);
    merged.merge(measure(["b", "a"]));
    let inner = |path| merged.groups.iter().find(|group| group.path == path).unwrap().checks[0].1;
    assert_eq!(inner("::a::inner"), CheckCount { passes: 2, fails: 0 });
    assert_eq!(inner("::b::inner"), CheckCount { passes: 0, fails: 2 });
    assert_eq!(merged.groups.len(), 5);
}
