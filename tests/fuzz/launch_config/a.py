pdef f():
  c = g()
  c.a.b, c.d = 2 * 3, [1, "x"]
  p = c.a
  p.e = F.C(k=1, m={"a": (1, 2)})
  return c
