from caramel.runtime.ray.node import PACKAGES, format_version_differences, list_versions


def test_a_node_with_the_same_versions_is_as_this_machine() -> None:
    assert format_version_differences("a (10.0.0.2)", list_versions(), list_versions()) == ""
    assert {*PACKAGES, "Python"} == {*list_versions()}


def test_a_node_with_other_versions_is_named_with_all_of_them() -> None:
    there = {**list_versions(), "torch": "0.1", "Python": "3.9.0", "scipy": "none"}
    said = format_version_differences("a (10.0.0.2)", there, list_versions())
    assert said.startswith("Node a (10.0.0.2) of Ray's cluster has other versions")
    assert all(word in said for word in ("torch 0.1 (not ", "Python 3.9.0 (not ", "scipy none (not "))
    assert "numpy" not in said
