"""``caramel doctor``: whether this machine and this project are fit for work."""
