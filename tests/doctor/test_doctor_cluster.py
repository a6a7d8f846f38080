from caramel.doctor.cluster import examine_cluster


def test_without_a_cluster_there_is_nothing_to_look_at(monkeypatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    (found,) = examine_cluster()
    assert str(found).startswith("FAIL  cluster    RAY_ADDRESS names no cluster")


def test_a_cluster_that_does_not_answer_is_one_finding(monkeypatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    monkeypatch.setattr("ray.is_initialized", lambda: False)  # other tests of this process may have a cluster
    (found,) = examine_cluster()
    assert found.state == "FAIL"
    assert "RAY_ADDRESS='127.0.0.1:1' cannot be joined" in found.text
