"""What the verdicts take for a kept promise, and what not."""

from verdicts import broken_promises

SAID = "> python pipelines/finetune.py\n\nError: Stage 'finetune': 1 of 2 trials failed: {}. Run `dvc repro`.\n\n"


def test_a_message_on_a_full_volume_names_its_mount_point() -> None:
    named, unnamed = (
        SAID.format("its volume /s/work has 0 MiB free"),
        SAID.format("RuntimeError: failed writing"),
    )
    assert broken_promises(named, failed=True, volume="/s/work") == []
    assert broken_promises(unnamed, failed=True) == []
    for said in (unnamed, SAID.format("its volume /s/data has 0 MiB free")):
        assert broken_promises(said, failed=True, volume="/s/work") == ["the volume is not named"]
    running = SAID.format("Stage 'finetune' is already running")
    assert broken_promises(running, failed=True, volume="/s/work") == []
